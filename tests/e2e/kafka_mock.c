/* Brokers of Kafka for tests, by librdkafka's mock cluster: in memory, on loopback, until standard input ends.
 *
 * usage: kafka_mock BROKERS. Prints their addresses. Then reads lines, and answers each with "ok":
 *   errors CODE...   the next requests to store messages are answered with these codes, one each (0: it is stored)
 *   down N, up N     broker N does not answer, and answers again
 *   topic NAME N     a topic with N partitions
 *   fail NAME CODE   each request about the topic is answered with the code; 0: no more */
#include <librdkafka/rdkafka.h>

#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCE = 0 /* number of the request */, CODES_MAX = 64, LINE_BYTES = 1024 };

static int errors(rd_kafka_mock_cluster_t *cluster, const char *words) {
    rd_kafka_resp_err_t codes[CODES_MAX];
    size_t count = 0;
    while (*words && count < CODES_MAX) {
        codes[count++] = (rd_kafka_resp_err_t)strtol(words, NULL, 10);
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    rd_kafka_mock_push_request_errors_array(cluster, PRODUCE, count, codes);
    return 1;
}

static int act(rd_kafka_mock_cluster_t *cluster, char *line) {
    char *rest = strchr(line, ' ');
    if (!rest)
        return 0;
    *rest++ = 0;
    char *second = strchr(rest, ' ');
    if (strcmp(line, "errors") == 0)
        return errors(cluster, rest);
    if (second)
        *second++ = 0;
    int32_t number = (int32_t)strtol(second ? second : rest, NULL, 10);
    if (strcmp(line, "down") == 0)
        return !rd_kafka_mock_broker_set_down(cluster, number);
    if (strcmp(line, "up") == 0)
        return !rd_kafka_mock_broker_set_up(cluster, number);
    if (strcmp(line, "topic") == 0 && second)
        return !rd_kafka_mock_topic_create(cluster, rest, number, 1);
    if (strcmp(line, "fail") == 0 && second) {
        rd_kafka_mock_topic_set_error(cluster, rest, (rd_kafka_resp_err_t)number);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    char line[LINE_BYTES], why[LINE_BYTES];
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
    rd_kafka_mock_cluster_t *cluster =
        owner && argc == 2 ? rd_kafka_mock_cluster_new(owner, (int)strtol(argv[1], NULL, 10)) : NULL;
    if (!cluster) {
        fprintf(stderr, "usage: kafka_mock BROKERS\n");
        return 2;
    }
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        puts(act(cluster, line) ? "ok" : "?");
        fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
    return 0;
}
