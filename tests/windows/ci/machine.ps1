<#
.SYNOPSIS
What Windows says of this machine, as JSON: for acknowledge.py facts.
#>
param([Parameter(Mandatory)][string]$Out)
$ErrorActionPreference = 'Stop'
$os = Get-CimInstance Win32_OperatingSystem
$processors = 0
Get-CimInstance Win32_Processor | ForEach-Object { $processors += $_.NumberOfLogicalProcessors }
$pointer = if ([Environment]::Is64BitOperatingSystem) { 8 } else { 4 }
$booted = [DateTimeOffset]::new($os.LastBootUpTime).ToUnixTimeSeconds()
@{ pointer_size = $pointer; processors = $processors; build = [int]$os.BuildNumber; booted_unix_s = $booted } | ConvertTo-Json | Set-Content -Encoding ascii $Out
