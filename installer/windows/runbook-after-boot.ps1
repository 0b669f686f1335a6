<#
.SYNOPSIS
Checks a boot session on a real machine, in two runs with a restart between them. Run as administrator. The exit code is the number of
failures.

.EXAMPLE
.\runbook-after-boot.ps1 -Arm
Then restart the machine with Restart-Computer. "Shut down" of a client resumes the kernel (Fast Startup), and no boot session starts.
.EXAMPLE
.\runbook-after-boot.ps1
#>
[CmdletBinding()]
param([switch]$Arm, [int]$Seconds = 120)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

$exe = Join-Path $env:ProgramFiles 'etwagent\etwagent.exe'
$state = Join-Path ([Environment]::GetFolderPath('CommonApplicationData')) 'etwagent'
$configuration = Join-Path $state 'etwagent.yaml'
$kept = "$configuration.before-runbook"
$file = Join-Path $state 'boot\runbook.etl'
$key = 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger\etwagent-runbook'
$script:failures = 0

function Test-Promise([string]$Name, [scriptblock]$Body) {
    try {
        $said = & $Body
        if ($said -eq $true) { Write-Output "PASS  $Name"; return }
        Write-Output "FAIL  $Name ($said)"
    } catch {
        Write-Output "FAIL  $Name ($($_.Exception.Message))"
    }
    $script:failures++
}

function Wait-For([scriptblock]$Condition) {
    $until = (Get-Date).AddSeconds($Seconds)
    while ((Get-Date) -lt $until) {
        if (& $Condition) { return $true }
        Start-Sleep -Milliseconds 500
    }
    return "not within $Seconds s"
}

function Get-Source([string]$Name) {
    $ErrorActionPreference = 'Continue'
    $text = & $exe status --json 2>$null
    if (-not $text) { return }
    $s = $text -join "`n" | ConvertFrom-Json
    if ($s.PSObject.Properties.Name -contains 'sources') { $s.sources | Where-Object { $_.name -eq $Name } }
}

if ($Arm) {
    if (Test-Path $kept) { throw "$kept exists: the second run of an earlier check is missing" }
    Copy-Item $configuration $kept
    $session = "{name: runbook, boot-file: '$file', providers: [{provider: Microsoft-Windows-Kernel-Process, any: '0x10'}]}"
    $text = [IO.File]::ReadAllText($configuration)
    $text = if ($text -match '(?m)^sessions:') { $text -replace '(?m)^sessions:.*$', "sessions:`n  - $session" } else { "$text`nsessions:`n  - $session`n" }
    [IO.File]::WriteAllText($configuration, $text)
    sc.exe control etwagent paramchange | Out-Null
    Test-Promise 'the boot session is in the registry' { Wait-For { (Test-Path $key) -and (Get-ItemProperty $key).Start -eq 1 } }
    # the service takes the file before anybody can look at its name
    Set-Service etwagent -StartupType Manual
    Write-Output "restart the machine, then run this script without -Arm"
    exit $script:failures
}

try {
    Test-Promise 'Windows started the boot session' { $s = (Get-ItemProperty $key).Status; if ($s -eq 0) { $true } else { "Status $s" } }
    $names = @(Get-ChildItem "$file*" | ForEach-Object { $_.Name })
    Write-Output "files of the boot session: $names"
    Test-Promise 'its file has a number of digits alone' { if (@($names | Where-Object { $_ -match '^runbook\.etl(\.\d+)?$' }).Count) { $true } else { "$names" } }
    $counter = (Get-ItemProperty $key).FileCounter
    Start-Service etwagent
    Test-Promise 'the file is delivered as source runbook-boot' { Wait-For { $s = Get-Source runbook-boot; $s -and $s.state -eq 'shipped' -and $s.events_acknowledged -gt 0 } }
    Test-Promise 'nothing of it stays where Windows wrote it' { -not @(Get-ChildItem "$file*" -ErrorAction SilentlyContinue) }
    Test-Promise 'the number of the last file stays in the registry' { if ((Get-ItemProperty $key).FileCounter -eq $counter) { $true } else { "$counter, now $((Get-ItemProperty $key).FileCounter)" } }
} finally {
    Copy-Item -Force $kept $configuration
    Remove-Item $kept
    sc.exe config etwagent start= delayed-auto | Out-Null
    sc.exe control etwagent paramchange | Out-Null
}
Write-Output "$script:failures failed"
exit $script:failures
