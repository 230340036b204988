/* Moves the wall clock of a process by the number of seconds in a file, which is read anew at every look at the clock.
 * Loaded into a server with LD_PRELOAD. The monotonic clock is left alone, as it is when somebody sets a clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *moved_by(void) {
    static volatile long long *seconds = NULL;
    if (seconds == NULL) {
        static long long none = 0;
        const char *path = getenv("CLOCK_FILE");
        int file = path ? open(path, O_RDONLY) : -1;
        void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
        seconds = page == MAP_FAILED ? &none : page;
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved_by();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
