<#
.SYNOPSIS
After a removal: each thing of etwagent that is still on the machine, one a line. The exit code is their number.
#>
$ErrorActionPreference = 'Continue'
$left = @()
$left += @(Get-Service etwagent -ErrorAction SilentlyContinue | ForEach-Object { "service $($_.Name), $($_.Status)" })
$left += @(Get-Process etwagent -ErrorAction SilentlyContinue | ForEach-Object { "process $($_.Id)" })
$left += @(Get-ChildItem 'HKLM:\SYSTEM\CurrentControlSet\Control\WMI\Autologger' | Where-Object { $_.PSChildName -like 'etwagent*' } | ForEach-Object { "autologger $($_.PSChildName)" })
$left += @(logman.exe query -ets | Where-Object { $_ -match '^etwagent' } | ForEach-Object { "session $_" })
# PURGE=1 removes the folder for state, too
foreach ($path in (Join-Path $env:ProgramFiles 'etwagent'), (Join-Path $env:ProgramData 'etwagent'), 'HKLM:\SYSTEM\CurrentControlSet\Services\EventLog\Application\etwagent', 'HKLM:\SOFTWARE\etwagent') {
    if (Test-Path $path) { $left += $path }
}
$left | ForEach-Object { Write-Output "LEFT  $_" }
Write-Output "$($left.Count) things stay"
exit $left.Count
