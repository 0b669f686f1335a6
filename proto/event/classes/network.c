/* TCP and UDP. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row TCP_IP = {
    EA_PROVIDER_TCP_IP, EA_KERNEL_TRACE, 1};

static const ea_field_row tcp_v0_fields[] = {
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"PID", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row tcp_send_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"startime", EA_U32},
    {"endtime", EA_U32},
    {"connid", EA_POINTER, .until = 1},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER, .since = 2},
    {0},
};

/* In the events that are not sends, version 1 has connid before seqnum and version 2 after it: this schema and Windows'
 * documentation agree on that. Two other sources (ntwmi.h WMI_TCPIP_V4 and V6, KernelTraceEventParser.cs
 * TcpIpTraceData) have connid first in both. All records at hand hold zeros there, so that none of them decides. */
static const ea_field_row tcp_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"connid", EA_POINTER, .until = 1},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER, .since = 2},
    {0},
};

static const ea_field_row tcp_connect_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"mss", EA_U16},
    {"sackopt", EA_U16},
    {"tsopt", EA_U16},
    {"wsopt", EA_U16},
    {"rcvwin", EA_U32},
    {"rcvwinscale", EA_I16},
    {"sndwinscale", EA_I16},
    {"connid", EA_POINTER, .until = 1},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER, .since = 2},
    {0},
};

static const ea_field_row tcp_fail_fields[] = {
    {"Proto", EA_U32},
    {0},
};

static const ea_field_row fail_v2_fields[] = {
    {"Proto", EA_U16},
    {"FailureCode", EA_U16},
    {0},
};

static const ea_field_row tcp_send_ipv6_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV6, EA_SEM_IP},
    {"saddr", EA_IPV6, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"startime", EA_U32},
    {"endtime", EA_U32},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER},
    {0},
};

static const ea_field_row tcp_ipv6_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV6, EA_SEM_IP},
    {"saddr", EA_IPV6, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER},
    {0},
};

static const ea_field_row tcp_connect_ipv6_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV6, EA_SEM_IP},
    {"saddr", EA_IPV6, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"mss", EA_U16},
    {"sackopt", EA_U16},
    {"tsopt", EA_U16},
    {"wsopt", EA_U16},
    {"rcvwin", EA_U32},
    {"rcvwinscale", EA_I16},
    {"sndwinscale", EA_I16},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER},
    {0},
};

static const ea_class_row tcp_ip_rows[] = {
    {"TcpIp/Send", 10, 0, 0, tcp_v0_fields},
    {"TcpIp/Send", 10, 1, 1, tcp_send_fields},
    {"TcpIp/SendIPV4", 10, 2, 2, tcp_send_fields},
    {"TcpIp/Recv", 11, 0, 0, tcp_v0_fields},
    {"TcpIp/Recv", 11, 1, 1, tcp_fields},
    {"TcpIp/RecvIPV4", 11, 2, 2, tcp_fields},
    {"TcpIp/Connect", 12, 0, 0, tcp_v0_fields},
    {"TcpIp/Connect", 12, 1, 1, tcp_connect_fields},
    {"TcpIp/ConnectIPV4", 12, 2, 2, tcp_connect_fields},
    {"TcpIp/Disconnect", 13, 0, 0, tcp_v0_fields},
    {"TcpIp/Disconnect", 13, 1, 1, tcp_fields},
    {"TcpIp/DisconnectIPV4", 13, 2, 2, tcp_fields},
    {"TcpIp/Retransmit", 14, 0, 0, tcp_v0_fields},
    {"TcpIp/Retransmit", 14, 1, 1, tcp_fields},
    {"TcpIp/RetransmitIPV4", 14, 2, 2, tcp_fields},
    {"TcpIp/Accept", 15, 0, 0, tcp_v0_fields},
    {"TcpIp/Accept", 15, 1, 1, tcp_connect_fields},
    {"TcpIp/AcceptIPV4", 15, 2, 2, tcp_connect_fields},
    {"TcpIp/Reconnect", 16, 1, 1, tcp_fields},
    {"TcpIp/ReconnectIPV4", 16, 2, 2, tcp_fields},
    {"TcpIp/Fail", 17, 1, 1, tcp_fail_fields},
    {"TcpIp/Fail", 17, 2, 2, fail_v2_fields},
    {"TcpIp/TCPCopy", 18, 1, 1, tcp_fields},
    {"TcpIp/TCPCopyIPV4", 18, 2, 2, tcp_fields},
    {"TcpIp/ARPCopy", 19, 1, 1, tcp_fields},
    {"TcpIp/FullACK", 20, 1, 1, tcp_fields},
    {"TcpIp/PartACK", 21, 1, 1, tcp_fields},
    {"TcpIp/DupACK", 22, 1, 1, tcp_fields},
    {"TcpIp/SendIPV6", 26, 2, 2, tcp_send_ipv6_fields},
    {"TcpIp/RecvIPV6", 27, 2, 2, tcp_ipv6_fields},
    {"TcpIp/ConnectIPV6", 28, 2, 2, tcp_connect_ipv6_fields},
    {"TcpIp/DisconnectIPV6", 29, 2, 2, tcp_ipv6_fields},
    {"TcpIp/RetransmitIPV6", 30, 2, 2, tcp_ipv6_fields},
    {"TcpIp/AcceptIPV6", 31, 2, 2, tcp_connect_ipv6_fields},
    {"TcpIp/ReconnectIPV6", 32, 2, 2, tcp_ipv6_fields},
    {"TcpIp/TCPCopyIPV6", 34, 2, 2, tcp_ipv6_fields},
};

const ea_family ea_family_tcp_ip = EA_FAMILY(TCP_IP, tcp_ip_rows, EA_MOF);

static const ea_provider_row UDP_IP = {
    EA_PROVIDER_UDP_IP, EA_KERNEL_TRACE, 1};

static const ea_field_row udp_v0_fields[] = {
    {"context", EA_POINTER, EA_SEM_ADDRESS},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"size", EA_U16, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"dsize", EA_U16, EA_SEM_BYTE_COUNT},
    {0},
};

static const ea_field_row udp_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV4, EA_SEM_IP},
    {"saddr", EA_IPV4, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"seqnum", EA_U32, .since = 2},
    {"connid", EA_POINTER, .since = 2},
    {0},
};

static const ea_field_row udp_fail_fields[] = {
    {"Proto", EA_U16},
    {"FailureCode", EA_U16},
    {0},
};

static const ea_field_row udp_ipv6_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV6, EA_SEM_IP},
    {"saddr", EA_IPV6, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER},
    {0},
};

static const ea_class_row udp_ip_rows[] = {
    {"UdpIp/Send", 10, 0, 0, udp_v0_fields},
    {"UdpIp/Send", 10, 1, 1, udp_fields},
    {"UdpIp/SendIPV4", 10, 2, 2, udp_fields},
    {"UdpIp/Recv", 11, 0, 0, udp_v0_fields},
    {"UdpIp/Recv", 11, 1, 1, udp_fields},
    {"UdpIp/RecvIPV4", 11, 2, 2, udp_fields},
    {"UdpIp/Fail", 17, 2, 2, udp_fail_fields},
    {"UdpIp/SendIPV6", 26, 2, 2, udp_ipv6_fields},
    {"UdpIp/RecvIPV6", 27, 2, 2, udp_ipv6_fields},
};

const ea_family ea_family_udp_ip = EA_FAMILY(UDP_IP, udp_ip_rows, EA_MOF);
