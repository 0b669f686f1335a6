<#
.SYNOPSIS
Records a known workload by etwagent and by Windows' own tools, and lets truth.py compare. The exit code is the number of comparisons that
found a difference. Run as administrator, with the agent installed.
#>
param([Parameter(Mandatory)][string]$Results, [int]$Count = 50)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$PSNativeCommandUseErrorActionPreference = $false # this script looks at exit codes itself
$exe = Join-Path $env:ProgramFiles 'etwagent\etwagent.exe'
$here = $PSScriptRoot
$script:wrong = 0
function Get-File([string]$Name) { return Join-Path $Results $Name }
# cmd.exe writes the bytes as they come; Windows PowerShell would make UTF-16 of them. PowerShell puts the argument in quotes, of which cmd.exe
# takes the outer ones away.
function Write-Dump([string]$Trace, [string]$To) {
    cmd.exe /c "`"$exe`" dump --format jsonl --no-names `"$Trace`" > `"$To`""
    if ($LASTEXITCODE) { throw "etwagent dump $Trace ended with $LASTEXITCODE" }
}
function Write-Xml([string]$Trace, [string]$To) {
    tracerpt.exe $Trace -o $To -of XML -y | Out-Null
    if ($LASTEXITCODE) { throw "tracerpt $Trace ended with $LASTEXITCODE" }
}
function Compare-Truth {
    python (Join-Path $here 'truth.py') @args | Out-Host
    if ($LASTEXITCODE) { $script:wrong++ }
}
# Records for so many seconds, while the body runs.
function Use-Recording([string]$Session, [string]$File, [int]$Seconds, [scriptblock]$Body) {
    $yaml = Get-File 'truth.yaml'
    Set-Content -Encoding ascii -Path $yaml -Value "sessions: [$Session]"
    $job = Start-Process $exe -ArgumentList 'record', '--config', "`"$yaml`"", '--duration', "${Seconds}s", "`"$File`"" -PassThru -NoNewWindow
    $handle = $job.Handle
    Start-Sleep -Seconds 3
    & $Body | Out-Host
    $job.WaitForExit()
    if (-not $handle -or $job.ExitCode) { throw "etwagent record ended with $($job.ExitCode)" }
}

# 1. one file, two readers: the kernel's events, and those of providers
Use-Recording '{name: truth, kind: system, flags: [PROC_THREAD, LOADER, CSWITCH, DISK_IO]}' (Get-File 'kernel.etl') 20 { & (Join-Path $here 'workload.ps1') (Get-File 'kernel-pids.txt') $Count }
Write-Dump (Get-File 'kernel.etl') (Get-File 'kernel.jsonl')
Write-Xml (Get-File 'kernel.etl') (Get-File 'kernel.xml')
Compare-Truth events (Get-File 'kernel.xml') (Get-File 'kernel.jsonl')

# 2. two sessions of one time: etwagent's and logman's
$provider = 'Microsoft-Windows-Kernel-Process'
Use-Recording "{name: truth, providers: [{provider: $provider, any: '0x10'}]}" (Get-File 'user.etl') 30 {
    logman.exe start etwtruth -p $provider 0x10 0xff -o (Get-File 'logman.etl') -ets
    & (Join-Path $here 'workload.ps1') (Get-File 'user-pids.txt') $Count
    Start-Sleep -Seconds 1
    logman.exe stop etwtruth -ets
}
Write-Dump (Get-File 'user.etl') (Get-File 'user.jsonl')
Write-Xml (Get-File 'user.etl') (Get-File 'user.xml')
Write-Xml (Get-File 'logman.etl') (Get-File 'logman.xml')
$guid = '22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716'
Compare-Truth events (Get-File 'user.xml') (Get-File 'user.jsonl')
Compare-Truth workload (Get-File 'user-pids.txt') (Get-File 'user.jsonl') (Get-File 'logman.xml') $guid

# 3. a recording of Windows Performance Recorder: totals
wpr.exe -start GeneralProfile.Light -filemode
if ($LASTEXITCODE) { throw "wpr -start ended with $LASTEXITCODE" }
& (Join-Path $here 'workload.ps1') (Get-File 'wpr-pids.txt') $Count
wpr.exe -stop (Get-File 'wpr.etl')
if ($LASTEXITCODE) { throw "wpr -stop ended with $LASTEXITCODE" }
cmd.exe /c "`"$exe`" stats --json `"$(Get-File 'wpr.etl')`" > `"$(Get-File 'wpr.json')`""
if ($LASTEXITCODE) { throw "etwagent stats ended with $LASTEXITCODE" }
tracerpt.exe (Get-File 'wpr.etl') -summary (Get-File 'wpr.txt') -y | Out-Null
Compare-Truth summary (Get-File 'wpr.txt') (Get-File 'wpr.json')
Write-Output "$script:wrong comparisons found a difference"
exit $script:wrong
