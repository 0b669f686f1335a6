# What runbook.ps1 and runbook-after-boot.ps1 have in common: they read this file into their own scope (". FILE"). It runs in Windows
# PowerShell 5.1 and in PowerShell 7.

# An exit code of a program is for the promises to judge: as an error it would end the script in a PowerShell 7 that is set so.
$PSNativeCommandUseErrorActionPreference = $false
$exe = Join-Path $env:ProgramFiles 'etwagent\etwagent.exe'
$state = Join-Path ([Environment]::GetFolderPath('CommonApplicationData')) 'etwagent'
$configuration = Join-Path $state 'etwagent.yaml'
# One entry a promise: name, result (PASS, FAIL or SKIP), said, seconds.
$results = New-Object System.Collections.ArrayList

# A line of text: on standard output, or on the error stream when standard output is the document's.
function Write-Line([string]$Line) {
    if ($Format -ne 'Text' -and -not $Out) { [Console]::Error.WriteLine($Line) } else { Write-Output $Line }
}

# What a promise's body returns when this machine cannot show it.
function Skip-Promise([string]$Why) { return "not checked here: $Why" }

function Test-Promise([string]$Name, [scriptblock]$Body) {
    $watch = [Diagnostics.Stopwatch]::StartNew()
    $result = 'FAIL'
    try {
        $said = & $Body
        if ($said -is [array]) { $said = $said[-1] }
        if ($said -eq $true) { $result = 'PASS'; $said = '' }
        elseif ("$said".StartsWith('not checked here')) { $result = 'SKIP' }
    } catch {
        $said = $_.Exception.Message
    }
    [void]$results.Add(@{ name = $Name; result = $result; said = "$said"; seconds = [Math]::Round($watch.Elapsed.TotalSeconds, 1) })
    if ($result -eq 'PASS') { Write-Line "PASS  $Name" } else { Write-Line "$result  $Name ($said)" }
}

function Wait-For([scriptblock]$Condition, [int]$For = $Seconds) {
    $until = (Get-Date).AddSeconds($For)
    while ((Get-Date) -lt $until) {
        if (& $Condition) { return $true }
        Start-Sleep -Milliseconds 500
    }
    return "not within $For s"
}

# What the agent prints, without its error stream: in Windows PowerShell 5.1 a line of a redirected error stream would end the script,
# unless errors are continued.
function Invoke-Agent {
    $ErrorActionPreference = 'Continue'
    & $exe @args 2>$null
}

function Get-Status {
    $text = Invoke-Agent status --json
    if (-not $text) { return $null }
    return $text -join "`n" | ConvertFrom-Json
}

function Test-Service([string]$Wanted) { return (Get-Service etwagent).Status -eq $Wanted }

# A value of a key of the registry; nothing when either is missing, which strict mode would make an error.
function Get-RegistryValue([string]$Key, [string]$Name) {
    $p = Get-ItemProperty $Key -ErrorAction SilentlyContinue
    if ($p -and $p.PSObject.Properties.Name -contains $Name) { return $p.$Name }
}

# The service reads its configuration again.
function Invoke-Reload { sc.exe control etwagent paramchange | Out-Null }

# A configuration with one more session.
function Add-Session([string]$Text, [string]$Session) {
    if ($Text -match '(?m)^sessions:') { return $Text -replace '(?m)^sessions:.*$', "sessions:`n  - $Session" }
    return "$Text`nsessions:`n  - $Session`n"
}

# XML has no place for most control characters.
function Get-Printable([string]$Text) { return $Text -replace '[^\x09\x0A\x0D\x20-\uD7FF\uE000-\uFFFD]', '?' }

function ConvertTo-JUnit([string]$Suite) {
    $xml = New-Object System.Xml.XmlDocument
    $root = $xml.AppendChild($xml.CreateElement('testsuite'))
    $root.SetAttribute('name', $Suite)
    $root.SetAttribute('tests', "$($results.Count)")
    $root.SetAttribute('failures', "$(@($results | Where-Object { $_.result -eq 'FAIL' }).Count)")
    $root.SetAttribute('skipped', "$(@($results | Where-Object { $_.result -eq 'SKIP' }).Count)")
    foreach ($r in $results) {
        $case = $root.AppendChild($xml.CreateElement('testcase'))
        $case.SetAttribute('classname', $Suite)
        $case.SetAttribute('name', (Get-Printable $r.name))
        $case.SetAttribute('time', $r.seconds.ToString([Globalization.CultureInfo]::InvariantCulture))
        $kind = @{ FAIL = 'failure'; SKIP = 'skipped' }[$r.result]
        if ($kind) {
            $child = $case.AppendChild($xml.CreateElement($kind))
            $child.SetAttribute('message', (Get-Printable $r.said))
        }
    }
    return $xml.OuterXml
}

# The end of a script: the document, the number of failures, and that number as the exit code.
function Complete-Runbook([string]$Suite) {
    $failed = @($results | Where-Object { $_.result -eq 'FAIL' }).Count
    $skipped = @($results | Where-Object { $_.result -eq 'SKIP' }).Count
    Write-Line "$failed failed, $skipped not checked here, $($results.Count) promises"
    $document = ''
    if ($Format -eq 'Json') { $document = ConvertTo-Json -Depth 4 @{ suite = $Suite; failed = $failed; skipped = $skipped; promises = @($results) } }
    if ($Format -eq 'JUnit') { $document = ConvertTo-JUnit $Suite }
    if ($document -and $Out) { [IO.File]::WriteAllText($Out, $document) }
    elseif ($document) { Write-Output $document }
    exit $failed
}
