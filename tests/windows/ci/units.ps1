<#
.SYNOPSIS
Runs the unit tests. The exit code is the number of those that failed.
#>
param([Parameter(Mandatory)][string]$Folder)
$ErrorActionPreference = 'Continue'
$programs = @(Get-ChildItem (Join-Path $Folder 'test_*.exe'))
$failed = @()
Push-Location $Folder
foreach ($program in $programs) {
    $said = & $program.FullName 2>&1 | ForEach-Object { "$_" }
    if ($LASTEXITCODE -eq 0) { Write-Output "ok      $($program.BaseName)" }
    else { $failed += $program.BaseName; Write-Output "FAILED  $($program.BaseName): $LASTEXITCODE"; $said | Select-Object -Last 40 }
}
Pop-Location
Write-Output "$($programs.Count) programs, $($failed.Count) failed: $failed"
if (-not $programs.Count) { exit 1 }
exit $failed.Count
