/* A driver for beanstalk-client; its functions return a negative number for an error. */
#include <beanstalk.h>
#include <setjmp.h>
static int fd;
static char *words[8];
static jmp_buf misfit;

static char *text(int n) { /* decode bytes in place */
    char *to = words[n];
    for (char *from = to + 1; sscanf(from, "%2hhx", (unsigned char *)to) == 1; from += 2) to++;
    return *to = 0, words[n];
}
static int64_t number(int n, int64_t most) { /* the type of the library may not hold it */
    char *end;
    int64_t found = strtoll(words[n], &end, 10);
    if (*end || found < 0 || found > most || found == INT64_MAX) longjmp(misfit, 1);
    return found;
}
static uint32_t u32(int n) { return number(n, UINT32_MAX); }
static int64_t id(void) { return number(2, INT64_MAX); }
static void done(int status) { printf(status < 0 ? "error %s" : "ok", bs_status_text(status)); }
static void count(int64_t found) { found < 0 ? done(found) : (void)printf("ok %lld", (long long)found); }
static void bytes(const char *data, size_t size) { printf(" x"); while (size--) printf("%02hhx", *data++); }
#define ON(verb) else if (!strcmp(words[1], verb))
#define JOB(call) { BSJ *found; int status = call; status < 0 ? done(status) : (count(found->id), bytes(found->data, found->size)); }
#define STRING(call) { char *found; int status = call; done(status); if (status >= 0) bytes(found, strlen(found)); }
static void answer(void) {
    if (!strcmp(words[1], "connect")) done(fd = bs_connect(words[2], atoi(words[3])));
    ON("put") { size_t size = strlen(words[5]) / 2; count(bs_put(fd, u32(2), u32(3), u32(4), text(5), size)); }
    ON("use") done(bs_use(fd, text(2)));
    ON("reserve") JOB(bs_reserve(fd, &found))
    ON("reserve-with-timeout") JOB(bs_reserve_with_timeout(fd, u32(2), &found))
    ON("delete") done(bs_delete(fd, id()));
    ON("release") done(bs_release(fd, id(), u32(3), u32(4)));
    ON("bury") done(bs_bury(fd, id(), u32(3)));
    ON("touch") done(bs_touch(fd, id()));
    ON("watch") done(bs_watch(fd, text(2)));
    ON("ignore") done(bs_ignore(fd, text(2)));
    ON("peek") JOB(bs_peek(fd, id(), &found))
    ON("peek-ready") JOB(bs_peek_ready(fd, &found))
    ON("peek-delayed") JOB(bs_peek_delayed(fd, &found))
    ON("peek-buried") JOB(bs_peek_buried(fd, &found))
    ON("kick") done(bs_kick(fd, number(2, INT32_MAX)));
    ON("stats-job") STRING(bs_stats_job(fd, id(), &found))
    ON("stats-tube") STRING(bs_stats_tube(fd, text(2), &found))
    ON("stats") STRING(bs_stats(fd, &found))
    ON("list-tubes") STRING(bs_list_tubes(fd, &found))
    ON("list-tube-used") STRING(bs_list_tube_used(fd, &found))
    ON("list-tubes-watched") STRING(bs_list_tubes_watched(fd, &found))
    else printf("unsupported");
}
int main(void) {
    char *line = 0;
    for (size_t room = 0; getline(&line, &room, stdin) > 0; puts(""), fflush(stdout)) {
        int n = 0;
        for (char *word = strtok(line, " \n"); word; word = strtok(0, " \n")) words[n++] = word;
        printf("@beanstalk %s ", words[0]);
        if (setjmp(misfit)) printf("unsupported"); else answer();
    }
}
