<#
.SYNOPSIS
Checks an installed etwagent on a real machine: one line a promise, PASS, FAIL or SKIP (what this machine cannot show), about a quarter of
an hour. Run as administrator. The exit code is the number of failures. runbook-shared.ps1 has to be beside it.

.PARAMETER Format
Text: lines alone. Json, JUnit: a document, too, in the file of -Out, which is a full path, or else on standard output.
.PARAMETER NoCollector
No collector acknowledges events: the promises that need one are not checked.
.PARAMETER Msi
A package of a higher version, which is installed at the end.

.EXAMPLE
.\runbook.ps1
.EXAMPLE
.\runbook.ps1 -NoCollector -Format JUnit -Out C:\temp\runbook.xml -Msi C:\temp\etwagent-1.0.1.msi
#>
[CmdletBinding()]
param([int]$Seconds = 120, [ValidateSet('Text', 'Json', 'JUnit')][string]$Format = 'Text', [string]$Out = '', [switch]$NoCollector, [string]$Msi = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot 'runbook-shared.ps1')
$registry = 'HKLM:\SYSTEM\CurrentControlSet\Services\etwagent'

# The status of the sessions that run; or of the one of that name, $null before there is one.
function Get-SessionStatus([string]$Name = '') {
    $s = Get-Status
    if (-not $s -or $s.PSObject.Properties.Name -notcontains 'sources') { return }
    $s.sources | Where-Object { $_.PSObject.Properties.Name -contains 'session' -and ($Name -eq '' -or $_.name -eq $Name) } | ForEach-Object { $_.session }
}

# Runs the body while the service has one more session, called runbook. The file's bytes come back as they were.
function Use-Session([string]$Session, [scriptblock]$Body) {
    $kept = [IO.File]::ReadAllBytes($configuration)
    $text = Add-Session ([Text.Encoding]::UTF8.GetString($kept)) $Session
    try {
        [IO.File]::WriteAllBytes($configuration, [Text.Encoding]::UTF8.GetBytes($text))
        Invoke-Reload
        & $Body
    } finally {
        [IO.File]::WriteAllBytes($configuration, $kept)
        Invoke-Reload
    }
}

Test-Promise 'the program is there' { Test-Path $exe }
Test-Promise 'the service is known' { [bool](Get-Service etwagent) }
Test-Promise 'its path is quoted' { (Get-ItemProperty $registry).ImagePath.StartsWith('"') }
Test-Promise 'it starts with the machine, delayed' { (Get-ItemProperty $registry).Start -eq 2 -and (Get-ItemProperty $registry).DelayedAutostart -eq 1 }
Test-Promise 'it has a SID of its own' { (Get-ItemProperty $registry).ServiceSidType -eq 1 }
Test-Promise 'it has only the privileges that sessions need' {
    (@((Get-ItemProperty $registry).RequiredPrivileges) -join ',') -eq 'SeChangeNotifyPrivilege,SeSystemProfilePrivilege'
}
# What sc.exe prints depends on the language of Windows. The value is SERVICE_FAILURE_ACTIONS with 32-bit offsets: the number of actions at 12,
# where they are at 16, and of each its type (1: restart) and delay.
Test-Promise 'it is restarted after a crash' {
    $actions = [byte[]](Get-RegistryValue $registry 'FailureActions')
    if (-not $actions -or $actions.Length -lt 28) { return 'no failure actions' }
    [BitConverter]::ToInt32($actions, 12) -ge 1 -and [BitConverter]::ToInt32($actions, [BitConverter]::ToInt32($actions, 16)) -eq 1
}
# Users, Everyone and authenticated users by SID, since their names differ by the language of Windows.
function Get-Access([string]$Path) {
    $sids = 'S-1-5-32-545', 'S-1-1-0', 'S-1-5-11'
    (Get-Acl $Path).GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier]) | Where-Object { $sids -contains $_.IdentityReference.Value }
}
Test-Promise 'users cannot read the folder for state' { -not (Get-Access $state) }
Test-Promise 'the folder for state belongs to the system or to administrators' {
    $owner = (Get-Acl $state).GetOwner([Security.Principal.SecurityIdentifier]).Value
    if ($owner -in 'S-1-5-18', 'S-1-5-32-544') { $true } else { $owner }
}
Test-Promise 'it runs' { if (-not (Test-Service Running)) { Start-Service etwagent }; Wait-For { Test-Service Running } }
Test-Promise 'status over the pipe' { (Get-Status).state -eq 'running' }
Test-Promise 'the status has the version of the program' { "$(Invoke-Agent --version)" -match [regex]::Escape((Get-Status).version) }
Test-Promise 'the configuration is valid' { Invoke-Agent check $configuration | Out-Null; $LASTEXITCODE -eq 0 }
Test-Promise 'its ETW sessions are there, as the status, etwagent sessions and Windows say' {
    $wanted = @(Get-SessionStatus | ForEach-Object { $_.name })
    $listed = Invoke-Agent sessions --json | ConvertFrom-Json
    $missing = @($wanted | Where-Object { $name = $_; -not @($listed | Where-Object { $_.name -eq $name -and $_.buffers -gt 0 -and $_.buffer_bytes -ge 4096 }) })
    $unknown = @($wanted | Where-Object { logman.exe query $_ -ets | Out-Null; $LASTEXITCODE -ne 0 })
    if (-not $missing -and -not $unknown) { $true } else { "of '$wanted' not listed: '$missing', not known to logman: '$unknown'" }
}
Test-Promise 'providers: Windows says who there is' {
    $all = Invoke-Agent providers --json --max-age '0s' | ConvertFrom-Json
    @($all | Where-Object { $_.layer -eq 'windows' }).Count -gt 100
}
Test-Promise 'providers: keywords, events and fields of one' {
    $p = (Invoke-Agent providers --json Microsoft-Windows-Kernel-Process | ConvertFrom-Json) | Where-Object { $_.layer -eq 'windows' }
    $start = @($p.events | Where-Object { $_.id -eq 1 })
    $start.Count -ge 1 -and @($start[0].fields | Where-Object { $_.name -eq 'ProcessID' }).Count -eq 1 -and $p.keywords
}
Test-Promise 'record: Windows writes the file, and it can be read' {
    $file = Join-Path $env:TEMP 'etwagent-runbook.etl'
    $yaml = Join-Path $env:TEMP 'etwagent-runbook.yaml'
    Set-Content -Path $yaml -Value 'sessions: [{name: runbook, kind: system, flags: [PROC_THREAD, LOADER]}]'
    try {
        $said = (Invoke-Agent record --config $yaml --duration '5s' --json $file | ConvertFrom-Json)[0]
        $read = Invoke-Agent stats --json $file | ConvertFrom-Json
        $said.written_buffers -gt 0 -and $said.lost_events -eq 0 -and $read.events -gt 100
    } finally {
        Remove-Item -Force -ErrorAction SilentlyContinue $file, $yaml
    }
}
Test-Promise 'it is enrolled, where it sees to its certificate itself' {
    $s = Get-Status
    if (-not ($s.PSObject.Properties.Name -contains 'enrolment')) { Skip-Promise 'its certificate comes from elsewhere' }
    elseif ($s.enrolment.state -ne 'enrolled') { "$($s.enrolment.trouble)" }
    else { -not (Test-Path (Join-Path $state 'token')) }
}
Test-Promise 'users cannot read the key' {
    $key = Join-Path $state 'agent.key'
    if (-not (Test-Path $key)) { Skip-Promise 'there is no agent.key' } else { -not (Get-Access $key) }
}
# A recording of some seconds with a session of its own: what it said, how many events of each class came (Classes), and what the
# file says of itself (File).
function Get-Recording([string]$Session, [scriptblock]$Meanwhile = {}) {
    $file = Join-Path $env:TEMP 'etwagent-runbook.etl'
    $yaml = Join-Path $env:TEMP 'etwagent-runbook.yaml'
    Set-Content -Path $yaml -Value "sessions: [$Session]"
    try {
        $job = Start-Process $exe -ArgumentList 'record', '--config', "`"$yaml`"", '--duration', '6s', "`"$file`"" -PassThru -NoNewWindow `
            -RedirectStandardError "$file.said" -RedirectStandardOutput "$file.out"
        Start-Sleep -Seconds 2
        & $Meanwhile | Out-Null
        $job.WaitForExit()
        $said = "$(Get-Content -Raw -ErrorAction SilentlyContinue "$file.said")"
        if (-not (Test-Path $file)) { throw "nothing was recorded: $said" }
        $read = Invoke-Agent stats --json $file | ConvertFrom-Json
        return @{ Said = $said; Classes = @($read.classes); File = @($read.files)[0] }
    } finally {
        Remove-Item -Force -ErrorAction SilentlyContinue $file, $yaml, "$file.said", "$file.out"
    }
}
function Get-Count($Recording, [scriptblock]$Which) {
    $n = 0
    foreach ($c in $Recording.Classes) { if ($c | Where-Object $Which) { $n += $c.count } }
    return $n
}
function Get-Ids($Recording, [string]$Provider) {
    $Recording.Classes | Where-Object { -not $_.classic -and $_.provider_name -eq $Provider } | ForEach-Object { $_.id } | Sort-Object -Unique
}
# OSVersion may be that of the manifest; the registry's is the machine's.
function Get-Build { return [int](Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion').CurrentBuildNumber }
function Start-Something { cmd.exe /c 'dir >nul' }
# Events of this very process, with names of their own.
$source = [System.Diagnostics.Tracing.EventSource]::new('Etwagent-Runbook', [System.Diagnostics.Tracing.EventSourceSettings]::EtwSelfDescribingEventFormat)
function Get-Mine($Recording) { return Get-Count $Recording { $_.provider -eq "$($source.Guid)" -and $_.name -match 'Wanted' } }
function Write-Mine { 1..20 | ForEach-Object { $source.Write('Wanted'); $source.Write('Other') } }

Test-Promise 'trace -c: a command and its child alone, exit code passed on, nothing left' {
    $file = Join-Path $env:TEMP 'etwagent-runbook-trace.etl'
    try {
        Invoke-Agent trace -c 'cmd.exe /c cmd.exe /c exit 7' -o $file --flag PROFILE --provider Microsoft-Windows-Kernel-File
        $code = $LASTEXITCODE
        $starts = @(Invoke-Agent dump --format jsonl --class Process/Start $file | ForEach-Object { $_ | ConvertFrom-Json })
        $others = @($starts | Where-Object { $_.fields.ImageFileName -notmatch 'cmd|conhost' })
        $left = @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-trace' })
        $files = @(Get-ChildItem "$file.*" -ErrorAction SilentlyContinue)
        if ($code -eq 7 -and $starts.Count -ge 1 -and -not $others -and -not $left -and -not $files) { $true }
        else { "code $code, $($starts.Count) starts, $($others.Count) others, sessions left: '$left', files left: '$files'" }
    } finally { Remove-Item -Force -ErrorAction SilentlyContinue $file }
}
Test-Promise 'trace --alone: a provider of the kernel has events' {
    $file = Join-Path $env:TEMP 'etwagent-runbook-trace.etl'
    try {
        Invoke-Agent trace --alone -c 'cmd.exe /c dir' -o $file --provider Microsoft-Windows-Kernel-File | Out-Null
        $read = Invoke-Agent stats --json $file | ConvertFrom-Json
        $n = Get-Count @{ Classes = @($read.classes) } { -not $_.classic -and $_.provider_name -eq 'Microsoft-Windows-Kernel-File' }
        if ($n -gt 0) { $true } else { 'no event' }
    } finally { Remove-Item -Force -ErrorAction SilentlyContinue $file }
}
Test-Promise 'trace -c: a command that does not exist is reported' {
    $file = Join-Path $env:TEMP 'etwagent-runbook-trace.etl'
    Invoke-Agent trace -c 'no-such-command-anywhere.exe' -o $file
    $LASTEXITCODE -eq 1 -and -not (Test-Path $file)
}
Test-Promise 'events and marks of our own reach a session that wants them' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Contoso-Runbook"}, {provider: "*Etwagent-Marks"}]}' {
        Invoke-Agent emit --provider Contoso-Runbook --name Wanted --field n=1
        Invoke-Agent mark 'runbook'
    }
    $written = Get-Count $r { $_.name -match 'Wanted' }
    $marks = Get-Count $r { $_.name -match 'Mark' }
    if ($written -eq 1 -and $marks -eq 1) { $true } else { "events $written, marks $marks $($r.Said)" }
}
Test-Promise 'a filter by event ids' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, event-ids: [1]}]}' { Start-Something }
    $ids = @(Get-Ids $r 'Microsoft-Windows-Kernel-Process')
    if ("$ids" -eq '1' -and $r.Said -notmatch 'refuses') { $true } else { "ids $ids $($r.Said)" }
}
Test-Promise 'keywords by name' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, any: WINEVENT_KEYWORD_PROCESS}]}' { Start-Something }
    $ids = @(Get-Ids $r 'Microsoft-Windows-Kernel-Process')
    if ($ids -contains 1 -and -not ($ids | Where-Object { $_ -in 3, 4, 5, 6 }) -and $r.Said -notmatch 'left out') { $true } else { "ids $ids $($r.Said)" }
}
Test-Promise 'a filter by payload' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, event-ids: [1], payload: [{event: 1, field: ImageName, compare: contains, value: no-such-name}]}]}' { Start-Something }
    $ids = @(Get-Ids $r 'Microsoft-Windows-Kernel-Process')
    if (-not $ids.Count -and $r.Said -notmatch 'refuses|left out') { $true } else { "ids $ids $($r.Said)" }
}
Test-Promise 'capture of state at the start, and again and again: processes that run' {
    $r = Get-Recording '{name: runbook, providers: [{provider: Microsoft-Windows-Kernel-Process, any: "0x10", capture-state: true, capture-every: 1s}]}'
    $n = Get-Count $r { -not $_.classic -and $_.provider_name -eq 'Microsoft-Windows-Kernel-Process' -and $_.id -eq 15 }
    if ($n -ge 2 * @(Get-Process).Count -and $r.Said -notmatch 'refuses') { $true } else { "$n events of rundowns $($r.Said)" }
}
Test-Promise 'a filter by names of TraceLogging events' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", event-names: [Wanted]}]}' { Write-Mine }
    $other = Get-Count $r { $_.provider -eq "$($source.Guid)" -and $_.name -match 'Other' }
    if ((Get-Mine $r) -ge 1 -and -not $other -and $r.Said -notmatch 'refuses') { $true } else { "$(Get-Mine $r), and others: $other $($r.Said)" }
}
Test-Promise 'filters by process: this one, and another' {
    $mine = Get-Recording "{name: runbook, providers: [{provider: '*Etwagent-Runbook', pids: ['$PID']}]}" { Write-Mine }
    $none = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", pids: ["4"]}]}' { Write-Mine }
    if ((Get-Mine $mine) -ge 20 -and (Get-Mine $none) -eq 0 -and "$($mine.Said)$($none.Said)" -notmatch 'refuses') { $true }
    else { "$(Get-Mine $mine), $(Get-Mine $none) $($mine.Said) $($none.Said)" }
}
Test-Promise 'filters by executable: this one, and another' {
    $program = Split-Path -Leaf (Get-Process -Id $PID).Path
    $mine = Get-Recording "{name: runbook, providers: [{provider: '*Etwagent-Runbook', executables: ['$program']}]}" { Write-Mine }
    $none = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", executables: [no-such-program.exe]}]}' { Write-Mine }
    if ((Get-Mine $mine) -ge 20 -and (Get-Mine $none) -eq 0 -and "$($mine.Said)$($none.Said)" -notmatch 'refuses') { $true }
    else { "$(Get-Mine $mine), $(Get-Mine $none) $($mine.Said) $($none.Said)" }
}
Test-Promise 'filters by package and app: nothing of a process that is in none' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", packages: [Nobody_1.0.0.0_x64__8wekyb3d8bbwe], app-ids: [App]}]}' { Write-Mine }
    if ((Get-Mine $r) -eq 0 -and $r.Said -notmatch 'refuses') { $true } else { "$(Get-Mine $r) $($r.Said)" }
}
Test-Promise 'a filter by container, or a word why not' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", containers: [8d5e5bf4-4ff8-4cf7-9a9a-2b1a4b3f2c11]}]}' { Write-Mine }
    if ($r.Said -match 'refuses') { Skip-Promise 'this Windows refuses the filter' }
    elseif ((Get-Mine $r) -eq 0) { $true }
    else { "$(Get-Mine $r) $($r.Said)" }
}
Test-Promise 'a group of providers is taken' {
    $r = Get-Recording '{name: runbook, providers: [{provider: 4f50731a-89cf-4782-b3e0-dce8c90476ba, groups: true, level: information}]}'
    if ($r.Said -notmatch 'refuses|left out') { $true } else { $r.Said }
}
Test-Promise 'stacks, SID, session and start key of events are taken' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Runbook", stacks: true, properties: [sid, terminal-session, process-start-key, event-key, psm-key]}]}' { Write-Mine }
    if ((Get-Mine $r) -ge 20 -and $r.Said -notmatch 'refuses|left out|without filters') { $true } else { "$(Get-Mine $r) $($r.Said)" }
}
Test-Promise 'stacks of some events only, by id, name and level, are taken' {
    $said = foreach ($filter in 'stack-event-ids: [1]', 'stack-event-names: [Wanted]', 'stack-level: warning, stack-any: "0x10"') {
        (Get-Recording "{name: runbook, providers: [{provider: '*Etwagent-Runbook', $filter}]}" { Write-Mine }).Said
    }
    if ("$said" -notmatch 'refuses|left out|without filters') { $true } else { "$said" }
}
Test-Promise 'a provider that no program has is reported' {
    $r = Get-Recording '{name: runbook, providers: [{provider: "*Etwagent-Nobody-Has-This"}]}'
    if ($r.Said -match 'no program has it registered now') { $true } else { $r.Said }
}
Test-Promise 'the kernel: samples with stacks, at an interval of our own' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD, LOADER, PROFILE], stacks: [PerfInfo/SampleProf, Process/Start], profile-interval: 1ms}' {
        $until = (Get-Date).AddSeconds(2)
        while ((Get-Date) -lt $until) { Start-Something }
    }
    $samples = Get-Count $r { $_.name -eq 'PerfInfo/SampleProf' }
    $stacks = Get-Count $r { $_.name -match '^StackWalk/' }
    if ($samples -gt 100 -and $stacks -gt 100 -and $r.Said -notmatch 'refuses') { $true } else { "$samples samples, $stacks stacks $($r.Said)" }
}
Test-Promise 'the kernel as providers of their own, or by flags on an older Windows' {
    $r = Get-Recording '{name: runbook, kind: system, providers: [{provider: SystemProcessProvider, any: GENERAL+LOADER}]}' { Start-Something }
    $older = $r.Said -match 'kernel flags stand for it'
    $starts = Get-Count $r { $_.name -eq 'Process/Start' }
    if ($starts -lt 1 -or $older -ne ((Get-Build) -lt 20348)) { "$starts starts $($r.Said)" } else { $true }
}
Test-Promise 'a filter by pool tags, or a word on an older Windows' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [POOL], pool-tags: [Ntfx, Io]}' { Start-Something }
    $older = $r.Said -match 'pool-tags: this Windows'
    if ($r.Said -match 'refuses' -or $older -ne ((Get-Build) -lt 20348)) { $r.Said } elseif ($older) { Skip-Promise 'an older Windows' } else { $true }
}
Test-Promise 'the NT Kernel Logger, where no other program has it' {
    if (Invoke-Agent sessions --json | ConvertFrom-Json | ForEach-Object { $_ } | Where-Object { $_.name -eq 'NT Kernel Logger' }) { return (Skip-Promise 'another program has it') }
    $r = Get-Recording '{name: runbook, kind: kernel-logger, flags: [PROC_THREAD, LOADER]}' { Start-Something }
    $there = Get-Count $r { $_.name -eq 'Process/DCStart' }
    if ($there -gt 10 -and $r.Said -notmatch 'refuses') { $true } else { "$there processes $($r.Said)" }
}
Test-Promise 'other clocks: system time, processor cycles' {
    $r = Get-Recording '{name: runbook, clock: system, providers: [{provider: "*Etwagent-Runbook"}]}' { Write-Mine }
    $c = Get-Recording '{name: runbook, clock: cycle, providers: [{provider: "*Etwagent-Runbook"}]}' { Write-Mine }
    if ($r.File.clock_type -eq 2 -and $c.File.clock_type -eq 3 -and (Get-Mine $r) -and (Get-Mine $c)) { $true } else { "clocks $($r.File.clock_type), $($c.File.clock_type)" }
}
Test-Promise 'performance counters on events, or a word why not' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD, CSWITCH], pmc-counters: [TotalCycles], pmc-events: [Thread/CSwitch]}'
    $n = Get-Count $r { $_.name -eq 'Thread/CSwitch' }
    $configured = Get-Count $r { $_.name -eq 'PerfInfo/PmcCtrConfig' }
    if ($n -gt 0 -and $configured -gt 0) { $true }
    elseif ($n -gt 0 -and $r.Said -match 'counter') { Skip-Promise "this machine has no counters: $($r.Said)" }
    else { "$n switches, $configured records of counters, and no word: $($r.Said)" }
}
Test-Promise 'samples of a performance counter, or a word why not' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD, PMC_PROFILE], pmc-samples: [{source: TotalCycles, interval: 1000000}]}' { Start-Something }
    $n = Get-Count $r { $_.name -eq 'PerfInfo/PmcCounterProf' }
    if ($n -gt 0) { $true }
    elseif ($r.Said -match 'counter') { Skip-Promise "this machine has no counters: $($r.Said)" }
    else { "neither samples nor a word: $($r.Said)" }
}
Test-Promise 'a file that goes round, beside what is shipped' {
    $file = Join-Path $env:TEMP 'etwagent-runbook-both.etl'
    try {
        $came = Use-Session "{name: runbook, kind: system, flags: [PROC_THREAD, LOADER, CSWITCH], buffer-size: 64KiB, min-buffers: 8, output: both, file: '$file', circular: true, file-size: 16MiB, keep-files: 0}" {
            Wait-For { $s = Get-SessionStatus runbook; $s -and $s.events -gt 10000 } 60
        }
        $gone = Wait-For { -not (Get-SessionStatus runbook) } 30
        if ($came -ne $true -or $gone -ne $true) { "events $came, the session's end $gone" }
        else {
            $read = Invoke-Agent stats --json $file | ConvertFrom-Json
            if ($read.events -gt 100 -and (Get-Item $file).Length -le 20MB) { $true } else { "$($read.events) events, $((Get-Item $file).Length) bytes" }
        }
    } finally { Remove-Item -Force -ErrorAction SilentlyContinue $file }
}
Test-Promise 'losses are detected, and Windows gets more buffers and keeps the kernel flags' {
    Use-Session '{name: runbook, kind: system, flags: [PROC_THREAD, CSWITCH, DISPATCHER, SYSCALL, INTERRUPT, DPC], buffer-size: 4KiB, min-buffers: 2, max-buffers: 4096, flush: 100ms}' {
        $grown = Wait-For { $s = Get-SessionStatus runbook; $s -and $s.grown -ge 1 -and $s.lost_events + $s.lost_buffers -gt 0 } 60
        $one = Invoke-Agent sessions --json | ConvertFrom-Json | ForEach-Object { $_ } | Where-Object { $_.name -eq 'etwagent-runbook' }
        $missing = @('CSWITCH', 'DISPATCHER', 'SYSCALL', 'INTERRUPT', 'DPC' | Where-Object { -not $one -or @($one.flags) -notcontains $_ })
        if ($grown -ne $true) { $grown } elseif ($missing) { "after more buffers the kernel flags $missing are missing" } else { $true }
    }
}
Test-Promise 'five events with counters are refused before a session starts' {
    $yaml = Join-Path $env:TEMP 'etwagent-runbook.yaml'
    Set-Content -Path $yaml -Value 'sessions: [{name: five, kind: system, flags: [CSWITCH], pmc-counters: [TotalCycles], pmc-events: [Thread/CSwitch, Thread/Start, Thread/End, Process/Start, Process/End]}]'
    try {
        $ErrorActionPreference = 'Continue'
        $said = "$(& $exe check $yaml 2>&1)"
        if ($LASTEXITCODE -ne 0 -and $said -match 'at most 4') { $true } else { "$LASTEXITCODE $said" }
    } finally { Remove-Item -Force -ErrorAction SilentlyContinue $yaml }
}
Test-Promise 'facts of the machine in a recording: pointers, processors, build' {
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD]}' { Start-Something }
    $pointer = if ([Environment]::Is64BitOperatingSystem) { 8 } else { 4 }
    $processors = 0
    Get-CimInstance Win32_Processor | ForEach-Object { $processors += $_.NumberOfLogicalProcessors }
    $f = $r.File
    if ($f.pointer_size -eq $pointer -and $f.cpus -eq $processors -and $f.os_build -eq (Get-Build)) { $true }
    else { "pointers of $($f.pointer_size), $($f.cpus) processors, build $($f.os_build), expected $pointer, $processors, $(Get-Build)" }
}
Test-Promise 'events that only Windows knows get their names from it' {
    Use-Session '{name: runbook, providers: [{provider: Microsoft-Windows-TCPIP, level: information}]}' {
        $asked = Wait-For {
            Test-Connection -Count 1 localhost -ErrorAction SilentlyContinue | Out-Null
            $s = Get-SessionStatus runbook
            $s -and $s.decode_asked -ge 1
        } 60
        $s = Get-SessionStatus runbook
        if ($asked -ne $true) { $asked } elseif ($s.decode_unanswered) { "$($s.decode_unanswered) of $($s.decode_asked) kinds have none" } else { $true }
    }
}
Test-Promise 'a session of that name that is there: stopped, or used as it is' {
    $said = foreach ($how in 'stop', 'adopt') {
        logman.exe start etwagent-runbook -p Microsoft-Windows-Kernel-Process 0x10 -bs 128 -rt -ets | Out-Null
        Use-Session "{name: runbook, stale: $how, buffer-size: 64KiB, providers: [{provider: Microsoft-Windows-Kernel-Process, any: '0x10'}]}" {
            $there = Wait-For { $s = Get-SessionStatus runbook; $s -and $s.runs } 30
            $wanted = if ($how -eq 'stop') { 64KB } else { 128KB }
            $has = (Get-SessionStatus runbook).buffer_bytes
            if ($there -ne $true -or $has -ne $wanted) { "${how}: $there, buffers of $has bytes" }
        }
        Wait-For { -not (Get-SessionStatus runbook) } 30 | Out-Null
    }
    if ($said) { "$said" } else { $true }
}
Test-Promise 'a session of boot time is in the registry while it is asked for' {
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger\etwagent-runbook'
    $there = Use-Session "{name: runbook, boot-file: '$state\boot\runbook.etl', providers: [{provider: Microsoft-Windows-Kernel-Process, any: '0x10'}]}" {
        Wait-For { (Get-RegistryValue $key 'Start') -eq 1 -and (Get-RegistryValue $key 'FileMax') -ge 2 } 30
    }
    if ($there -ne $true) { $there } else { Wait-For { -not (Test-Path $key) } 30 }
}
Test-Promise 'image files are looked at: most modules get size, PDB, version and hash' {
    Use-Session '{name: runbook, kind: system, flags: [PROC_THREAD, LOADER], images: true}' {
        $there = Wait-For { $s = Get-SessionStatus runbook; $s -and $s.images_told -gt 100 } 90
        $s = Get-SessionStatus runbook
        if ($there -ne $true) { return $there }
        $failed = $s.images_absent + $s.images_refused + $s.images_unreadable + $s.images_other
        if ($failed * 10 -lt $s.images_told) { $true } else { "$($s.images_told) recorded, $failed failed: $s" }
    }
}
Test-Promise 'objects that existed before a session are recorded by a second one; a session that another program ends is started again' {
    Use-Session '{name: runbook, kind: system, flags: [PROC_THREAD], rundown: [process, driver, file-name, registry]}' {
        $recorded = Wait-For { $s = Get-SessionStatus runbook; $s -and $s.rundowns -eq 1 -and $s.rundown_events -gt 1000 } 60
        $left = @(logman.exe query -ets | Where-Object { $_ -match '^etwagent-runbook-rundown' }).Count
        logman.exe stop etwagent-runbook -ets | Out-Null
        $again = Wait-For { $s = Get-SessionStatus runbook; $s -and $s.ended_by_others -eq 1 -and $s.starts -eq 2 -and $s.runs } 30
        $s = Get-SessionStatus runbook
        if ($recorded -ne $true) { "the rundown: $recorded" } elseif ($left) { 'the second session is still there' } elseif ($again -ne $true) { "the next start: $again" }
        elseif ($s.lost_events -or $s.dropped_events) { "lost $($s.lost_events), dropped $($s.dropped_events)" } else { $true }
    }
}
Test-Promise 'names of open files come alone' {
    Use-Session '{name: runbook, kind: system, flags: [PROFILE], rundown: [file-name]}' {
        Wait-For { $s = Get-SessionStatus runbook; $s -and $s.rundowns -eq 1 -and $s.rundown_events -gt 100 } 60
    }
}
Test-Promise 'the profile interval is as it was before a recording' {
    $before = "$(Invoke-Agent counters --json)"
    $r = Get-Recording '{name: runbook, kind: system, flags: [PROC_THREAD, PROFILE], profile-interval: 500us}'
    $after = "$(Invoke-Agent counters --json)"
    if ($after -eq $before -and $r.Said -notmatch 'refuses') { $true } else { "$before, now $after $($r.Said)" }
}
$source.Dispose()
Test-Promise 'the collector acknowledges events' {
    if ($NoCollector) { return (Skip-Promise 'there is no collector') }
    $before = (Get-Status).shipping.requests
    Wait-For { (Get-Status).shipping.requests -gt $before }
}
Test-Promise 'nothing is in trouble' {
    if ($NoCollector) { return (Skip-Promise 'there is no collector') }
    $s = Get-Status; if ($s.shipping.trouble -or $s.spool.trouble) { "$($s.shipping.trouble) $($s.spool.trouble)" } else { $true }
}
Test-Promise 'the ledger balances' { (Get-Status).ledger_balanced }
Test-Promise 'a reload is done' {
    $before = (Get-Status).reloads
    Invoke-Reload
    Wait-For { (Get-Status).reloads -gt $before } 30
}
Test-Promise 'control 200 flushes' { sc.exe control etwagent 200 | Out-Null; $LASTEXITCODE -eq 0 }
Test-Promise 'control 201 writes the status' {
    $before = (Get-Item (Join-Path $state 'status.json')).LastWriteTimeUtc
    sc.exe control etwagent 201 | Out-Null
    Wait-For { (Get-Item (Join-Path $state 'status.json')).LastWriteTimeUtc -gt $before } 30
}
Test-Promise 'a wrong configuration changes nothing, and is reported' {
    $kept = [IO.File]::ReadAllBytes($configuration)
    try {
        Set-Content -Path $configuration -Value 'surprise: 1'
        $before = (Get-Status).reloads_refused
        Invoke-Reload
        Wait-For { (Get-Status).reloads_refused -gt $before } 30
    } finally {
        [IO.File]::WriteAllBytes($configuration, $kept)
    }
}
Test-Promise 'the event log has an entry about it' {
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
Test-Promise 'status says that it is stopped' { Invoke-Agent status | Out-Null; $LASTEXITCODE -eq 1 }
Test-Promise 'it starts again' { Start-Service etwagent; Wait-For { Test-Service Running } 60 }
# The version of the package that is installed; the program's own may be the same in two packages.
function Get-PackageVersion {
    Get-ChildItem 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall' | ForEach-Object { $_.PSPath } |
        Where-Object { (Get-RegistryValue $_ 'DisplayName') -eq 'etwagent' } | ForEach-Object { [version](Get-RegistryValue $_ 'DisplayVersion') }
}
Test-Promise 'an upgrade ends with 0, also when the event log has shown a message' {
    if (-not $Msi) { return (Skip-Promise 'no package (-Msi)') }
    $before = @(Get-PackageVersion)
    Get-WinEvent -FilterHashtable @{ LogName = 'Application'; ProviderName = 'etwagent' } -MaxEvents 1 | ForEach-Object { $_.Message } | Out-Null
    $p = Start-Process msiexec.exe -ArgumentList '/i', "`"$Msi`"", '/qn', '/norestart', '/l*v', "`"$Msi.upgrade.txt`"" -PassThru -Wait
    $runs = Wait-For { (Test-Service Running) -and (Get-Status) } 60
    $after = @(Get-PackageVersion)
    $balanced = (Get-Status).ledger_balanced
    $newer = $before.Count -eq 1 -and $after.Count -eq 1 -and $after[0] -gt $before[0]
    if ($p.ExitCode -eq 0 -and $runs -eq $true -and $balanced -and $newer) { $true } else { "exit code $($p.ExitCode), runs: $runs, ledger: $balanced, $before, now $after" }
}
Complete-Runbook 'runbook'
