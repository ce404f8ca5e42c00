/* A driver for a client library in C: replace LIBRARY and its calls. */
#include "LIBRARY.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[1 << 18], *words[8], body[1 << 17];

static void answer(void) {
    if (!strcmp(words[1], "connect")) printf(library_connect(words[2], atoi(words[3])) < 0 ? "error connect" : "ok");
    else if (!strcmp(words[1], "put")) {
        size_t size = strlen(words[5]) / 2;
        for (size_t n = 0; n < size; n++) sscanf(words[5] + 1 + 2 * n, "%2hhx", (unsigned char *)&body[n]);
        long long id = library_put(atoll(words[2]), atoll(words[3]), atoll(words[4]), body, size);
        id < 0 ? printf("error put") : printf("ok %lld", id);
    } else if (!strcmp(words[1], "reserve")) {
        size_t size = sizeof body;
        long long id = library_reserve(body, &size);
        id < 0 ? printf("error reserve") : printf("ok %lld x", id);
        for (size_t n = 0; id >= 0 && n < size; n++) printf("%02hhx", body[n]);
    } else if (!strcmp(words[1], "delete")) printf(library_delete(atoll(words[2])) < 0 ? "error delete" : "ok");
    else printf("unsupported");
}
int main(void) {
    for (int n = 0; fgets(line, sizeof line, stdin); n = 0, puts(""), fflush(stdout)) {
        for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) words[n++] = word;
        printf("@beanstalk %s ", words[0]), answer();
    }
}
