/* A tiny client, for the template of a driver. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static FILE *library;

static int library_connect(const char *host, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {inet_addr(host)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) return -1;
    library = fdopen(fd, "r+");
    return setvbuf(library, NULL, _IONBF, 0);
}
static long long library_put(long long pri, long long delay, long long ttr, char *body, size_t size) {
    char line[64];
    long long id = -1;
    fprintf(library, "put %lld %lld %lld %zu\r\n", pri, delay, ttr, size);
    fwrite(body, 1, size, library);
    fputs("\r\n", library);
    return fgets(line, sizeof line, library) && sscanf(line, "INSERTED %lld", &id) == 1 ? id : -1;
}
static long long library_reserve(char *body, size_t *size) {
    char line[64];
    long long id = -1;
    fputs("reserve\r\n", library);
    if (!fgets(line, sizeof line, library) || sscanf(line, "RESERVED %lld %zu", &id, size) != 2) return -1;
    *size = fread(body, 1, *size, library);
    return fgetc(library) == '\r' && fgetc(library) == '\n' ? id : -1;
}
static int library_delete(long long id) {
    char line[64];
    fprintf(library, "delete %lld\r\n", id);
    return fgets(line, sizeof line, library) && !strncmp(line, "DELETED", 7) ? 0 : -1;
}
