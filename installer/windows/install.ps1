<#
.SYNOPSIS
Installs, updates or removes the etwagent service without an MSI. Run as administrator.

.EXAMPLE
.\install.ps1 -Program .\etwagent.exe -CollectorUrl https://collector.example:8443 -CaCert .\ca.crt -Profile security
.EXAMPLE
.\install.ps1 -CollectorUrl https://collector.example:8443 -CaCert .\ca.crt -TokenFile .\token.txt
The service gets its certificate itself, at port 8444 of the collector unless -EnrollUrl says otherwise. The token is in a file,
so that no command line and no log of scripts shows it; delete that file afterwards.
.EXAMPLE
.\install.ps1 -Remove -Purge
#>
[CmdletBinding()]
param(
    [string]$Program = (Join-Path $PSScriptRoot 'etwagent.exe'),
    [string]$Profiles = (Join-Path $PSScriptRoot 'profiles'),
    [string]$CollectorUrl,
    [string]$CaCert,
    [string]$Certificate,
    [string]$Key,
    [string]$Profile,
    [string]$EnrollUrl,
    [string]$TokenFile,
    [switch]$Remove,
    [switch]$Purge
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$PSNativeCommandUseErrorActionPreference = $false # this script looks at exit codes itself

$folder = Join-Path $env:ProgramFiles 'etwagent'
$state = Join-Path ([Environment]::GetFolderPath('CommonApplicationData')) 'etwagent'
$installed = Join-Path $folder 'etwagent.exe'

function Invoke-Agent {
    & $installed @args
    if ($LASTEXITCODE -ne 0) { throw "etwagent $($args[0]) ended with $LASTEXITCODE" }
}

$me = New-Object Security.Principal.WindowsPrincipal ([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) { throw 'run this as administrator' }

if ($Remove) {
    if (Get-Service etwagent -ErrorAction SilentlyContinue) { Invoke-Agent uninstall }
    if ($Purge -and (Test-Path $installed)) { Invoke-Agent purge --yes }
    if (Test-Path $folder) { Remove-Item -Recurse -Force $folder }
    if (-not $Purge) { Write-Output "configuration, keys, spool and log stay in $state" }
    return
}

if (Get-Service etwagent -ErrorAction SilentlyContinue) { Stop-Service etwagent }
New-Item -ItemType Directory -Force $folder | Out-Null
# A program that another one still holds (a viewer of events of an earlier version) cannot be replaced, but renamed.
Get-ChildItem "$installed.old-*" -ErrorAction SilentlyContinue | Remove-Item -Force -ErrorAction SilentlyContinue
if (Test-Path $installed) { Move-Item $installed "$installed.old-$(Get-Date -Format yyyyMMddHHmmss)" }
Copy-Item -Force $Program $installed
Get-ChildItem "$installed.old-*" | Remove-Item -Force -ErrorAction SilentlyContinue
if (Test-Path $Profiles) { Copy-Item -Recurse -Force $Profiles $folder }
if ($CollectorUrl -or $TokenFile) {
    $words = @('configure', '--profiles', (Join-Path $folder 'profiles'))
    if ($CollectorUrl) { $words += @('--collector', $CollectorUrl) }
    if ($CaCert) { $words += @('--ca', (Resolve-Path $CaCert).Path) }
    if ($Profile) { $words += @('--profile', $Profile) }
    if ($EnrollUrl) { $words += @('--enroll', $EnrollUrl) }
    if ($TokenFile) { $words += @('--token-file', (Resolve-Path $TokenFile).Path) }
    Invoke-Agent @words
}
if ($Certificate) { Copy-Item -Force $Certificate (Join-Path $state 'agent.crt') }
if ($Key) { Copy-Item -Force $Key (Join-Path $state 'agent.key') }
Invoke-Agent install --start
Get-Service etwagent
