<#
.SYNOPSIS
Installs or removes the MSI and demands the exit code 0, which 3010 (a restart is needed) is not.
#>
param([Parameter(Mandatory)][string]$Msi, [Parameter(Mandatory)][string]$Log, [string[]]$Properties = @(), [switch]$Remove)
$ErrorActionPreference = 'Stop'
$action = if ($Remove) { '/x' } else { '/i' }
$p = Start-Process msiexec.exe -ArgumentList (@($action, "`"$Msi`"", '/qn', '/norestart', '/l*v', "`"$Log`"") + $Properties) -PassThru -Wait
Write-Output "msiexec $action $Msi ended with $($p.ExitCode)"
exit $p.ExitCode
