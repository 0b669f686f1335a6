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
