<#
.SYNOPSIS
Checks an installed etwagent on a real machine: one line a promise, PASS or FAIL, about ten minutes. Run as administrator.
The exit code is the number of failures.

.EXAMPLE
.\runbook.ps1
#>
[CmdletBinding()]
param([int]$Seconds = 120)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

$exe = Join-Path $env:ProgramFiles 'etwagent\etwagent.exe'
$state = Join-Path ([Environment]::GetFolderPath('CommonApplicationData')) 'etwagent'
$registry = 'HKLM:\SYSTEM\CurrentControlSet\Services\etwagent'
$script:failures = 0

function Test-Promise([string]$Name, [scriptblock]$Body) {
    try {
        $said = & $Body
        if ($said -is [array]) { $said = $said[-1] }
        if ($said -eq $true) { Write-Output "PASS  $Name"; return }
        Write-Output "FAIL  $Name ($said)"
    } catch {
        Write-Output "FAIL  $Name ($($_.Exception.Message))"
    }
    $script:failures++
}

function Wait-For([scriptblock]$Condition, [int]$For = $Seconds) {
    $until = (Get-Date).AddSeconds($For)
    while ((Get-Date) -lt $until) {
        if (& $Condition) { return $true }
        Start-Sleep -Milliseconds 500
    }
    return "not within $For s"
}

function Get-Status {
    $text = & $exe status --json 2>$null
    if ($LASTEXITCODE -ne 0 -and -not $text) { return $null }
    return $text -join "`n" | ConvertFrom-Json
}

function Test-Service([string]$Wanted) { return (Get-Service etwagent).Status -eq $Wanted }

Test-Promise 'the program is there' { Test-Path $exe }
Test-Promise 'the service is known' { [bool](Get-Service etwagent) }
Test-Promise 'its path is quoted' { (Get-ItemProperty $registry).ImagePath.StartsWith('"') }
Test-Promise 'it starts with the machine, delayed' { (Get-ItemProperty $registry).Start -eq 2 -and (Get-ItemProperty $registry).DelayedAutostart -eq 1 }
Test-Promise 'it has a SID of its own' { (Get-ItemProperty $registry).ServiceSidType -eq 1 }
Test-Promise 'it has only the privileges that sessions need' {
    (@((Get-ItemProperty $registry).RequiredPrivileges) -join ',') -eq 'SeChangeNotifyPrivilege,SeSystemProfilePrivilege'
}
Test-Promise 'it is restarted after a crash' { (sc.exe qfailure etwagent | Out-String) -match 'RESTART' }
Test-Promise 'users cannot read the folder for state' {
    -not ((Get-Acl $state).Access | Where-Object { "$($_.IdentityReference)" -match 'Users|Everyone' })
}
Test-Promise 'it runs' { if (-not (Test-Service Running)) { Start-Service etwagent }; Wait-For { Test-Service Running } }
Test-Promise 'status over the pipe' { (Get-Status).state -eq 'running' }
Test-Promise 'the configuration is valid' { & $exe check (Join-Path $state 'etwagent.yaml') | Out-Null; $LASTEXITCODE -eq 0 }
Test-Promise 'its ETW sessions are there' {
    $wanted = @((Get-Content (Join-Path $state 'etwagent.yaml')) -match '^\s+- name: ').Count
    $there = @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-' }).Count
    if ($there -ge 1 -or $wanted -eq 0) { $true } else { "$there of $wanted" }
}
Test-Promise 'providers: Windows says who there is' {
    $all = & $exe providers --json --max-age 0s | ConvertFrom-Json
    @($all | Where-Object { $_.layer -eq 'windows' }).Count -gt 100
}
Test-Promise 'providers: keywords, events and fields of one' {
    $p = (& $exe providers --json Microsoft-Windows-Kernel-Process | ConvertFrom-Json) | Where-Object { $_.layer -eq 'windows' }
    $start = @($p.events | Where-Object { $_.id -eq 1 })
    $start.Count -ge 1 -and @($start[0].fields | Where-Object { $_.name -eq 'ProcessID' }).Count -eq 1 -and $p.keywords
}
Test-Promise 'record: Windows writes the file, and it can be read' {
    $file = Join-Path $env:TEMP 'etwagent-runbook.etl'
    $yaml = Join-Path $env:TEMP 'etwagent-runbook.yaml'
    Set-Content -Path $yaml -Value 'sessions: [{name: runbook, kind: system, flags: [PROC_THREAD, LOADER]}]'
    try {
        $said = (& $exe record --config $yaml --duration 5s --json $file | ConvertFrom-Json)[0]
        $read = & $exe stats --json $file | ConvertFrom-Json
        $said.written_buffers -gt 0 -and $said.lost_events -eq 0 -and $read.events -gt 100
    } finally {
        Remove-Item -Force -ErrorAction SilentlyContinue $file, $yaml
    }
}
Test-Promise 'it is enrolled, where it sees to its certificate itself' {
    $s = Get-Status
    if (-not ($s.PSObject.Properties.Name -contains 'enrolment')) { $true }
    elseif ($s.enrolment.state -ne 'enrolled') { "$($s.enrolment.trouble)" }
    else { -not (Test-Path (Join-Path $state 'token')) }
}
Test-Promise 'users cannot read the key' {
    $key = Join-Path $state 'agent.key'
    -not (Test-Path $key) -or -not ((Get-Acl $key).Access | Where-Object { "$($_.IdentityReference)" -match 'Users|Everyone' })
}
# A recording of some seconds with a session of its own: what it said (2>&1), and the events by name.
function Get-Recording([string]$Sessions, [scriptblock]$Meanwhile = {}) {
    $file = Join-Path $env:TEMP 'etwagent-runbook.etl'
    $yaml = Join-Path $env:TEMP 'etwagent-runbook.yaml'
    Set-Content -Path $yaml -Value "sessions: [$Sessions]"
    try {
        $job = Start-Process $exe -ArgumentList 'record', '--config', $yaml, '--duration', '6s', $file -PassThru -NoNewWindow `
            -RedirectStandardError "$file.said" -RedirectStandardOutput "$file.out"
        Start-Sleep -Seconds 2
        & $Meanwhile | Out-Null
        $job.WaitForExit()
        $events = @(& $exe dump --format jsonl $file | ForEach-Object { $_ | ConvertFrom-Json })
        return @{ Said = "$(Get-Content -Raw -ErrorAction SilentlyContinue "$file.said")"; Events = $events }
    } finally {
        Remove-Item -Force -ErrorAction SilentlyContinue $file, $yaml, "$file.said", "$file.out"
    }
}
function Start-Something { cmd.exe /c 'dir >nul' }

Test-Promise 'trace -c: a command and its child alone, exit code passed on, nothing left' {
    $file = Join-Path $env:TEMP 'etwagent-runbook-trace.etl'
    try {
        & $exe trace -c 'cmd.exe /c "cmd.exe /c exit 7"' -o $file 2>$null
        $code = $LASTEXITCODE
        $starts = @(& $exe dump --format jsonl --class Process/Start $file | ForEach-Object { $_ | ConvertFrom-Json })
        $others = @($starts | Where-Object { $_.fields.ImageFileName -notmatch 'cmd|conhost' })
        $left = @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-trace' })
        if ($code -eq 7 -and $starts.Count -ge 1 -and -not $others -and -not $left) { $true } else { "code $code, $($starts.Count) starts, $($others.Count) others" }
    } finally { Remove-Item -Force -ErrorAction SilentlyContinue $file }
}
Test-Promise 'a filter by event ids' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, event-ids: [1]}]}' { Start-Something }
    $ids = @($r.Events | Where-Object { $_.provider_name -eq 'Microsoft-Windows-Kernel-Process' } | ForEach-Object { $_.id } | Sort-Object -Unique)
    if ("$ids" -eq '1' -and $r.Said -notmatch 'refuses') { $true } else { "ids $ids $($r.Said)" }
}
Test-Promise 'a filter by payload' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, event-ids: [1], payload: [{event: 1, field: ImageName, compare: contains, value: nobody-has-this}]}]}' { Start-Something }
    $n = @($r.Events | Where-Object { $_.provider_name -eq 'Microsoft-Windows-Kernel-Process' }).Count
    if ($n -eq 0 -and $r.Said -notmatch 'refuses|left out') { $true } else { "$n events $($r.Said)" }
}
Test-Promise 'a filter by names of TraceLogging events' {
    $source = [System.Diagnostics.Tracing.EventSource]::new('Etwagent-Runbook', [System.Diagnostics.Tracing.EventSourceSettings]::EtwSelfDescribingEventFormat)
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", event-names: [Wanted]}]}' { $source.Write('Wanted'); $source.Write('Unwanted') }
    $source.Dispose()
    $names = @($r.Events | Where-Object { $_.provider_name -eq 'Etwagent-Runbook' } | ForEach-Object { $_.name } | Sort-Object -Unique)
    if ("$names" -eq 'Wanted' -and $r.Said -notmatch 'refuses') { $true } else { "names $names $($r.Said)" }
}
Test-Promise 'filters by executable, stacks, SID and start key are taken' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-DNS-Client, executables: [powershell.exe], stacks: true, properties: [sid, terminal-session, process-start-key, event-key]}]}' { Resolve-DnsName localhost -ErrorAction SilentlyContinue }
    if ($r.Said -notmatch 'refuses|left out|without filters') { $true } else { $r.Said }
}
Test-Promise 'the kernel as providers of their own, or by flags on an older Windows' {
    $r = Get-Recording '{name: runbook, kind: system, providers: [{provider: SystemProcessProvider, any: GENERAL+LOADER}]}' { Start-Something }
    $older = $r.Said -match 'kernel flags stand for it'
    $starts = @($r.Events | Where-Object { $_.name -eq 'Process/Start' }).Count
    if ($starts -ge 1 -and $older -eq ([Environment]::OSVersion.Version.Build -lt 20348)) { $true } else { "$starts starts $($r.Said)" }
}
Test-Promise 'performance counters, or a word why not' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD, CSWITCH], pmc-counters: [TotalCycles], pmc-events: [Thread/CSwitch]}'
    $with = @($r.Events | Where-Object { $_.name -eq 'Thread/CSwitch' }).Count
    if ($with -gt 0 -or $r.Said) { $true } else { 'neither counters nor a word' }
}
Test-Promise 'a session of boot time is in the registry while it is asked for' {
    $file = Join-Path $state 'etwagent.yaml'
    $kept = Get-Content -Raw $file
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger\etwagent-runbook'
    try {
        $more = "  - {name: runbook, boot-file: '$state\boot\runbook.etl', providers: [{provider: Microsoft-Windows-Kernel-Process, any: 0x10}]}"
        $text = if ($kept -match '(?m)^sessions:') { $kept -replace '(?m)^sessions:.*$', "sessions:`n$more" } else { "$kept`nsessions:`n$more`n" }
        Set-Content -Path $file -Value $text
        sc.exe control etwagent paramchange | Out-Null
        $there = Wait-For { (Test-Path $key) -and (Get-ItemProperty $key).Start -eq 1 -and (Get-ItemProperty $key).FileMax -ge 2 } 30
    } finally {
        Set-Content -Path $file -Value $kept -NoNewline
        sc.exe control etwagent paramchange | Out-Null
    }
    if ($there -ne $true) { $there } else { Wait-For { -not (Test-Path $key) } 30 }
}
Test-Promise 'image files are looked at: most modules get size, PDB, version and hash' {
    $file = Join-Path $state 'etwagent.yaml'
    $kept = Get-Content -Raw $file
    function Get-Images { @((Get-Status).sources | Where-Object { $_.name -eq 'runbook' })[0].session }
    try {
        $more = '  - {name: runbook, kind: system, flags: [PROC_THREAD, LOADER], images: true}'
        $text = if ($kept -match '(?m)^sessions:') { $kept -replace '(?m)^sessions:.*$', "sessions:`n$more" } else { "$kept`nsessions:`n$more`n" }
        Set-Content -Path $file -Value $text
        sc.exe control etwagent paramchange | Out-Null
        $there = Wait-For { (Get-Images).images_told -gt 100 } 90
        $s = Get-Images
    } finally {
        Set-Content -Path $file -Value $kept -NoNewline
        sc.exe control etwagent paramchange | Out-Null
    }
    $failed = $s.images_absent + $s.images_refused + $s.images_unreadable + $s.images_other
    if ($there -ne $true) { $there } elseif ($failed * 10 -lt $s.images_told) { $true } else { "$($s.images_told) told, $failed failed: $s" }
}
Test-Promise 'what was there before a session is told, by a second one; who ends the session sees it come back' {
    $file = Join-Path $state 'etwagent.yaml'
    $kept = Get-Content -Raw $file
    function Get-Session { @((Get-Status).sources | Where-Object { $_.name -eq 'runbook' })[0].session }
    try {
        $more = '  - {name: runbook, kind: system, flags: [PROC_THREAD], rundown: [process, driver, file-name, registry]}'
        $text = if ($kept -match '(?m)^sessions:') { $kept -replace '(?m)^sessions:.*$', "sessions:`n$more" } else { "$kept`nsessions:`n$more`n" }
        Set-Content -Path $file -Value $text
        sc.exe control etwagent paramchange | Out-Null
        $told = Wait-For { (Get-Session).rundowns -eq 1 -and (Get-Session).rundown_events -gt 1000 } 60
        $left = @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-runbook-rundown' }).Count
        logman.exe stop etwagent-runbook -ets | Out-Null
        $again = Wait-For { (Get-Session).ended_by_others -eq 1 -and (Get-Session).starts -eq 2 -and (Get-Session).runs } 30
        $s = Get-Session
    } finally {
        Set-Content -Path $file -Value $kept -NoNewline
        sc.exe control etwagent paramchange | Out-Null
    }
    if ($told -ne $true) { "the rundown: $told" } elseif ($left) { 'the second session is still there' } elseif ($again -ne $true) { "the next start: $again" }
    elseif ($s.lost_events -or $s.dropped_events) { "lost $($s.lost_events), dropped $($s.dropped_events)" } else { $true }
}
Test-Promise 'the collector acknowledges events' {
    $before = (Get-Status).shipping.requests
    Wait-For { (Get-Status).shipping.requests -gt $before }
}
Test-Promise 'nothing is in trouble' { $s = Get-Status; if ($s.shipping.trouble -or $s.spool.trouble) { "$($s.shipping.trouble) $($s.spool.trouble)" } else { $true } }
Test-Promise 'the ledger balances' { (Get-Status).ledger_balanced }
Test-Promise 'a reload is done' {
    $before = (Get-Status).reloads
    sc.exe control etwagent paramchange | Out-Null
    Wait-For { (Get-Status).reloads -gt $before } 30
}
Test-Promise 'control 200 flushes' { sc.exe control etwagent 200 | Out-Null; $LASTEXITCODE -eq 0 }
Test-Promise 'control 201 writes the status' {
    $before = (Get-Item (Join-Path $state 'status.json')).LastWriteTimeUtc
    sc.exe control etwagent 201 | Out-Null
    Wait-For { (Get-Item (Join-Path $state 'status.json')).LastWriteTimeUtc -gt $before } 30
}
Test-Promise 'a wrong configuration changes nothing, and is said' {
    $file = Join-Path $state 'etwagent.yaml'
    $kept = Get-Content -Raw $file
    try {
        Set-Content -Path $file -Value 'surprise: 1'
        $before = (Get-Status).reloads_refused
        sc.exe control etwagent paramchange | Out-Null
        Wait-For { (Get-Status).reloads_refused -gt $before } 30
    } finally {
        Set-Content -Path $file -Value $kept -NoNewline
    }
}
Test-Promise 'the event log tells of it' {
    [bool](Get-WinEvent -FilterHashtable @{ LogName = 'Application'; ProviderName = 'etwagent'; Id = 4 } -MaxEvents 1)
}
Test-Promise 'event log messages have their text' {
    (Get-WinEvent -FilterHashtable @{ LogName = 'Application'; ProviderName = 'etwagent' } -MaxEvents 1).Message -match 'service|configuration|work'
}
Test-Promise 'it is started again after a kill' {
    $old = (Get-Status).pid
    Stop-Process -Id $old -Force
    Wait-For { $s = Get-Status; $s -and $s.state -eq 'running' -and $s.pid -ne $old } 60
}
Test-Promise 'it stops within 30 s' { Stop-Service etwagent; Wait-For { Test-Service Stopped } 30 }
Test-Promise 'no session of it is left' { -not @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-' }) }
Test-Promise 'status says that it is stopped' { & $exe status | Out-Null; $LASTEXITCODE -eq 1 }
Test-Promise 'it starts again' { Start-Service etwagent; Wait-For { Test-Service Running } 60 }
Write-Output "$script:failures failed"
exit $script:failures
