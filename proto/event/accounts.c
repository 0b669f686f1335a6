/* See accounts.h. Source: Microsoft, "Security identifiers" (Windows Server documentation), [MS-DTYP] 2.4.2.4. */
#include "proto/event/accounts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
static const struct {
    const char *sid, *name;
} NAMES[] = {
    {"S-1-0-0", "NULL SID"},
    {"S-1-1-0", "Everyone"},
    {"S-1-2-0", "LOCAL"},
    {"S-1-2-1", "CONSOLE LOGON"},
    {"S-1-3-0", "CREATOR OWNER"},
    {"S-1-3-1", "CREATOR GROUP"},
    {"S-1-3-2", "CREATOR OWNER SERVER"},
    {"S-1-3-3", "CREATOR GROUP SERVER"},
    {"S-1-3-4", "OWNER RIGHTS"},
    {"S-1-5-1", "NT AUTHORITY\\DIALUP"},
    {"S-1-5-2", "NT AUTHORITY\\NETWORK"},
    {"S-1-5-3", "NT AUTHORITY\\BATCH"},
    {"S-1-5-4", "NT AUTHORITY\\INTERACTIVE"},
    {"S-1-5-6", "NT AUTHORITY\\SERVICE"},
    {"S-1-5-7", "NT AUTHORITY\\ANONYMOUS LOGON"},
    {"S-1-5-8", "NT AUTHORITY\\PROXY"},
    {"S-1-5-9", "NT AUTHORITY\\ENTERPRISE DOMAIN CONTROLLERS"},
    {"S-1-5-10", "NT AUTHORITY\\SELF"},
    {"S-1-5-11", "NT AUTHORITY\\Authenticated Users"},
    {"S-1-5-12", "NT AUTHORITY\\RESTRICTED"},
    {"S-1-5-13", "NT AUTHORITY\\TERMINAL SERVER USER"},
    {"S-1-5-14", "NT AUTHORITY\\REMOTE INTERACTIVE LOGON"},
    {"S-1-5-15", "NT AUTHORITY\\This Organization"},
    {"S-1-5-17", "NT AUTHORITY\\IUSR"},
    {"S-1-5-18", "NT AUTHORITY\\SYSTEM"},
    {"S-1-5-19", "NT AUTHORITY\\LOCAL SERVICE"},
    {"S-1-5-20", "NT AUTHORITY\\NETWORK SERVICE"},
    {"S-1-5-33", "NT AUTHORITY\\WRITE RESTRICTED"},
    {"S-1-5-113", "NT AUTHORITY\\Local account"},
    {"S-1-5-114", "NT AUTHORITY\\Local account and member of Administrators group"},
    {"S-1-5-32-544", "BUILTIN\\Administrators"},
    {"S-1-5-32-545", "BUILTIN\\Users"},
    {"S-1-5-32-546", "BUILTIN\\Guests"},
    {"S-1-5-32-547", "BUILTIN\\Power Users"},
    {"S-1-5-32-548", "BUILTIN\\Account Operators"},
    {"S-1-5-32-549", "BUILTIN\\Server Operators"},
    {"S-1-5-32-550", "BUILTIN\\Print Operators"},
    {"S-1-5-32-551", "BUILTIN\\Backup Operators"},
    {"S-1-5-32-552", "BUILTIN\\Replicator"},
    {"S-1-5-32-554", "BUILTIN\\Pre-Windows 2000 Compatible Access"},
    {"S-1-5-32-555", "BUILTIN\\Remote Desktop Users"},
    {"S-1-5-32-556", "BUILTIN\\Network Configuration Operators"},
    {"S-1-5-32-557", "BUILTIN\\Incoming Forest Trust Builders"},
    {"S-1-5-32-558", "BUILTIN\\Performance Monitor Users"},
    {"S-1-5-32-559", "BUILTIN\\Performance Log Users"},
    {"S-1-5-32-560", "BUILTIN\\Windows Authorization Access Group"},
    {"S-1-5-32-561", "BUILTIN\\Terminal Server License Servers"},
    {"S-1-5-32-562", "BUILTIN\\Distributed COM Users"},
    {"S-1-5-32-568", "BUILTIN\\IIS_IUSRS"},
    {"S-1-5-32-569", "BUILTIN\\Cryptographic Operators"},
    {"S-1-5-32-573", "BUILTIN\\Event Log Readers"},
    {"S-1-5-32-574", "BUILTIN\\Certificate Service DCOM Access"},
    {"S-1-5-32-575", "BUILTIN\\RDS Remote Access Servers"},
    {"S-1-5-32-576", "BUILTIN\\RDS Endpoint Servers"},
    {"S-1-5-32-577", "BUILTIN\\RDS Management Servers"},
    {"S-1-5-32-578", "BUILTIN\\Hyper-V Administrators"},
    {"S-1-5-32-579", "BUILTIN\\Access Control Assistance Operators"},
    {"S-1-5-32-580", "BUILTIN\\Remote Management Users"},
    {"S-1-5-64-10", "NT AUTHORITY\\NTLM Authentication"},
    {"S-1-5-64-14", "NT AUTHORITY\\SChannel Authentication"},
    {"S-1-5-64-21", "NT AUTHORITY\\Digest Authentication"},
    {"S-1-5-80-0", "NT SERVICE\\ALL SERVICES"},
    {"S-1-5-83-0", "NT VIRTUAL MACHINE\\Virtual Machines"},
    {"S-1-5-90-0", "Window Manager\\Window Manager Group"},
    {"S-1-15-2-1", "APPLICATION PACKAGE AUTHORITY\\ALL APPLICATION PACKAGES"},
    {"S-1-15-2-2", "APPLICATION PACKAGE AUTHORITY\\ALL RESTRICTED APPLICATION PACKAGES"},
    {"S-1-16-0", "Mandatory Label\\Untrusted Mandatory Level"},
    {"S-1-16-4096", "Mandatory Label\\Low Mandatory Level"},
    {"S-1-16-8192", "Mandatory Label\\Medium Mandatory Level"},
    {"S-1-16-8448", "Mandatory Label\\Medium Plus Mandatory Level"},
    {"S-1-16-12288", "Mandatory Label\\High Mandatory Level"},
    {"S-1-16-16384", "Mandatory Label\\System Mandatory Level"},
    {"S-1-16-20480", "Mandatory Label\\Protected Process Mandatory Level"},
};

/* Services of Windows and of SQL Server. */
static const char *const SERVICES[] = {
    "AarSvc", "AJRouter", "ALG", "AppIDSvc", "Appinfo", "AppMgmt", "AppReadiness", "AppVClient", "AppXSvc",
    "AudioEndpointBuilder", "Audiosrv", "AxInstSV", "BDESVC", "BFE", "BITS", "BrokerInfrastructure", "BTAGService",
    "BthAvctpSvc", "bthserv", "camsvc", "CDPSvc", "CertPropSvc", "ClipSVC", "COMSysApp", "CoreMessagingRegistrar",
    "CryptSvc", "CscService", "DcomLaunch", "defragsvc", "DeviceAssociationService", "DeviceInstall",
    "DevQueryBroker", "Dhcp", "diagnosticshub.standardcollector.service", "DiagTrack", "DispBrokerDesktopSvc",
    "DisplayEnhancementService", "DmEnrollmentSvc", "dmwappushservice", "Dnscache", "DoSvc", "dot3svc", "DPS",
    "DsmSvc", "DsSvc", "DusmSvc", "EapHost", "EFS", "embeddedmode", "EntAppSvc", "EventLog", "EventSystem", "fdPHost",
    "FDResPub", "fhsvc", "FontCache", "FontCache3.0.0.0", "FrameServer", "gpsvc", "GraphicsPerfSvc", "hidserv",
    "HvHost", "icssvc", "IKEEXT", "InstallService", "iphlpsvc", "IpxlatCfgSvc", "KeyIso", "KtmRm", "LanmanServer",
    "LanmanWorkstation", "lfsvc", "LicenseManager", "lltdsvc", "lmhosts", "LSM", "MapsBroker", "mpssvc", "MSDTC",
    "MSiSCSI", "msiserver", "MSSQLSERVER", "NaturalAuthentication", "NcaSvc", "NcbService", "NcdAutoSetup",
    "Netlogon", "Netman", "netprofm", "NetSetupSvc", "NetTcpPortSharing", "NgcCtnrSvc", "NgcSvc", "NlaSvc", "nsi",
    "PcaSvc", "PeerDistSvc", "PerfHost", "PhoneSvc", "pla", "PlugPlay", "PolicyAgent", "Power", "PrintNotify",
    "ProfSvc", "PushToInstall", "QWAVE", "RasAuto", "RasMan", "RemoteAccess", "RemoteRegistry", "RetailDemo", "RmSvc",
    "RpcEptMapper", "RpcLocator", "RpcSs", "SamSs", "SCardSvr", "ScDeviceEnum", "Schedule", "SCPolicySvc", "SDRSVC",
    "seclogon", "SecurityHealthService", "SEMgrSvc", "SENS", "Sense", "SensorDataService", "SensorService",
    "SensrSvc", "SessionEnv", "SgrmBroker", "SharedAccess", "ShellHWDetection", "shpamsvc", "smphost", "SmsRouter",
    "SNMPTRAP", "spectrum", "Spooler", "sppsvc", "SQLBrowser", "SQLSERVERAGENT", "SQLTELEMETRY", "SQLWriter",
    "SSDPSRV", "ssh-agent", "sshd", "SstpSvc", "StateRepository", "StiSvc", "StorSvc", "svsvc", "swprv", "SysMain",
    "SystemEventsBroker", "TabletInputService", "TapiSrv", "TermService", "Themes", "TieringEngineService",
    "TimeBrokerSvc", "TokenBroker", "TrkWks", "TrustedInstaller", "tzautoupdate", "UevAgentService", "UmRdpService",
    "upnphost", "UserManager", "UsoSvc", "VaultSvc", "vds", "vmcompute", "vmicguestinterface", "vmicheartbeat",
    "vmickvpexchange", "vmicrdv", "vmicshutdown", "vmictimesync", "vmicvmsession", "vmicvss", "vmms", "VSS",
    "W32Time", "W3SVC", "WaaSMedicSvc", "WalletService", "WarpJITSvc", "WAS", "WbioSrvc", "Wcmsvc", "wcncsvc",
    "WdiServiceHost", "WdiSystemHost", "WdNisSvc", "WebClient", "Wecsvc", "WEPHOSTSVC", "wercplsupport", "WerSvc",
    "WFDSConMgrSvc", "WiaRpc", "WinDefend", "WinHttpAutoProxySvc", "Winmgmt", "WinRM", "wisvc", "WlanSvc", "wlidsvc",
    "wlpasvc", "wmiApSrv", "WMPNetworkSvc", "workfolderssvc", "WpcMonSvc", "WPDBusEnum", "WpnService", "WSearch",
    "wuauserv", "WwanSvc", "XblAuthManager", "XblGameSave", "XboxGipSvc", "XboxNetApiSvc",
};

// clang-format on

/* Accounts of a session, which is the last number. */
static const struct {
    const char *begin, *name;
} OF_SESSIONS[] = {
    {"S-1-5-90-0-", "Window Manager\\DWM-"},
    {"S-1-5-96-0-", "Font Driver Host\\UMFD-"},
};

static int is_session(const char *digits) {
    enum { DIGITS_MAX = 10 };

    size_t n = strspn(digits, "0123456789");
    return n && n <= DIGITS_MAX && !digits[n];
}

enum { NAME_MAX_CHARACTERS = 256 }; /* of the service control manager */

static uint32_t rotated(uint32_t v, unsigned by) {
    return v << by | v >> (32 - by);
}

/* A block of SHA-1 (FIPS 180-4, 6.1.2). It names services and protects nothing; libraries may refuse to compute it. */
static void hash_block(uint32_t h[5], const uint8_t block[64]) {
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++)
        w[i] = i < 16 ? (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                            (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3]
                      : rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20              ? ((b & c) | (~b & d)) + 0x5A827999
                     : i >= 40 && i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC
                                         : (b ^ c ^ d) + (i < 40 ? 0x6ED9EBA1 : 0xCA62C1D6);
        uint32_t next = rotated(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotated(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

/* [MS-DTYP] 2.4.2.4: SHA-1 of the name in upper case, as UTF-16, in five sub-authorities. */
int ea_service_sid(const char *name, char out[EA_SERVICE_SID_BYTES]) {
    uint8_t text[2 * NAME_MAX_CHARACTERS + 128] = {0};
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    size_t n = 0;
    for (; name[n]; n++) {
        if (n == NAME_MAX_CHARACTERS || (unsigned char)name[n] >= 0x80)
            return 0;
        text[2 * n] = (uint8_t)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 'a' + 'A' : name[n]);
    }
    if (!n)
        return 0;
    text[2 * n] = 0x80;
    size_t len_bytes = (2 * n + 9 + 63) / 64 * 64;
    text[len_bytes - 2] = (uint8_t)(n >> 4); /* the length in bits: 16 a character */
    text[len_bytes - 1] = (uint8_t)(n << 4);
    for (size_t i = 0; i < len_bytes; i += 64)
        hash_block(h, text + i);
    int at = snprintf(out, EA_SERVICE_SID_BYTES, "S-1-5-80");
    for (size_t i = 0; i < 5; i++) /* each is read as a number of the other byte order */
        at += snprintf(out + at, EA_SERVICE_SID_BYTES - (size_t)at, "-%" PRIu32, __builtin_bswap32(h[i]));
    return 1;
}

static const char *service_name(const char *sid, char buffer[EA_ACCOUNT_BYTES]) {
    char of[EA_SERVICE_SID_BYTES];
    if (strncmp(sid, "S-1-5-80-", 9) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES; i++)
        if (ea_service_sid(SERVICES[i], of) && strcmp(of, sid) == 0) {
            snprintf(buffer, EA_ACCOUNT_BYTES, "NT SERVICE\\%s", SERVICES[i]);
            return buffer;
        }
    return NULL;
}

/* Source: winnt.h, SECURITY_MANDATORY_LOW_RID and the others. */
const char *ea_integrity_level(const char *label) {
    static const char BEGIN[] = "S-1-16-";
    static const char *const LEVELS[] = {"Untrusted", "Low", "Medium", "High", "System"};
    char *end;
    if (strncmp(label, BEGIN, sizeof BEGIN - 1) != 0 || label[sizeof BEGIN - 1] < '0' || label[sizeof BEGIN - 1] > '9')
        return NULL;
    unsigned long long level = strtoull(label + sizeof BEGIN - 1, &end, 10) / 0x1000;
    return *end ? NULL : LEVELS[level < 4 ? level : 4];
}

const char *ea_account_name(const char *sid, char buffer[EA_ACCOUNT_BYTES]) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(sid, NAMES[i].sid) == 0)
            return NAMES[i].name;
    for (size_t i = 0; i < sizeof OF_SESSIONS / sizeof *OF_SESSIONS; i++) {
        size_t n = strlen(OF_SESSIONS[i].begin);
        if (strncmp(sid, OF_SESSIONS[i].begin, n) == 0 && is_session(sid + n)) {
            snprintf(buffer, EA_ACCOUNT_BYTES, "%s%s", OF_SESSIONS[i].name, sid + n);
            return buffer;
        }
    }
    return service_name(sid, buffer);
}
