<#
.SYNOPSIS
A known workload: so many programs, one after another. Their ids go into the file, one a line.
#>
param([Parameter(Mandatory)][string]$Pids, [int]$Count = 50)
$ErrorActionPreference = 'Stop'
1..$Count | ForEach-Object {
    $p = Start-Process cmd.exe -ArgumentList '/c', 'exit', '0' -PassThru -WindowStyle Hidden
    $p.WaitForExit()
    "$($p.Id)"
} | Set-Content -Encoding ascii $Pids
