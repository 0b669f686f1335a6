<#
.SYNOPSIS
Checks a boot session on a real machine, in two runs with a restart between them. Run as administrator. The exit code is the number of
failures. runbook-shared.ps1 has to be beside it; -Format and -Out are those of runbook.ps1.

.EXAMPLE
.\runbook-after-boot.ps1 -Arm
Then restart the machine with Restart-Computer. "Shut down" of a client resumes the kernel (Fast Startup), and no boot session starts.
.EXAMPLE
.\runbook-after-boot.ps1
#>
[CmdletBinding()]
param([switch]$Arm, [int]$Seconds = 120, [ValidateSet('Text', 'Json', 'JUnit')][string]$Format = 'Text', [string]$Out = '')
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'

. (Join-Path $PSScriptRoot 'runbook-shared.ps1')
$kept = "$configuration.before-runbook"
$file = Join-Path $state 'boot\runbook.etl'
$key = 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger\etwagent-runbook'

function Get-Source([string]$Name) {
    $s = Get-Status
    if ($s -and $s.PSObject.Properties.Name -contains 'sources') { $s.sources | Where-Object { $_.name -eq $Name } }
}

if ($Arm) {
    if (Test-Path $kept) { throw "$kept exists: the second run of an earlier check is missing" }
    Copy-Item $configuration $kept
    $session = "{name: runbook, boot-file: '$file', providers: [{provider: Microsoft-Windows-Kernel-Process, any: '0x10'}]}"
    [IO.File]::WriteAllText($configuration, (Add-Session ([IO.File]::ReadAllText($configuration)) $session))
    Invoke-Reload
    Test-Promise 'the boot session is in the registry' { Wait-For { (Get-RegistryValue $key 'Start') -eq 1 } }
    # the service takes the file before anybody can look at its name
    Set-Service etwagent -StartupType Manual
    Write-Line 'restart the machine, then run this script without -Arm'
    Complete-Runbook 'runbook-arm'
}

try {
    Test-Promise 'Windows started the boot session' { $s = Get-RegistryValue $key 'Status'; if ($s -is [int] -and $s -eq 0) { $true } else { "Status $s" } }
    $names = @(Get-ChildItem "$file*" | ForEach-Object { $_.Name })
    Write-Line "files of the boot session: $names"
    Test-Promise 'its file has a number of digits alone' { if (@($names | Where-Object { $_ -match '^runbook\.etl(\.\d+)?$' }).Count) { $true } else { "$names" } }
    $counter = Get-RegistryValue $key 'FileCounter'
    Test-Promise 'the service starts' { Start-Service etwagent; Test-Service Running }
    Test-Promise 'the file is delivered as source runbook-boot' { Wait-For { $s = Get-Source runbook-boot; $s -and $s.state -eq 'shipped' -and $s.events_acknowledged -gt 0 } }
    Test-Promise 'nothing of it stays where Windows wrote it' { -not @(Get-ChildItem "$file*" -ErrorAction SilentlyContinue) }
    Test-Promise 'the number of the last file stays in the registry' {
        $now = Get-RegistryValue $key 'FileCounter'
        if ($null -ne $counter -and $now -eq $counter) { $true } else { "'$counter', now '$now'" }
    }
} finally {
    Copy-Item -Force $kept $configuration
    Remove-Item $kept
    sc.exe config etwagent start= delayed-auto | Out-Null
    Invoke-Reload
}
Complete-Runbook 'runbook-after-boot'
