// What the provider and the load generator share: a clock, growing bytes, sockets.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);  // one clock for every process of a machine
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static inline struct timespec until(uint64_t due, uint64_t now) {
    uint64_t left = due > now ? due - now : 0;
    return (struct timespec){.tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND)};
}

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

struct bytes {
    char *at;
    size_t len, cap;
};

// Room for more, and for the NUL that string functions want.
static inline char *reserve(struct bytes *b, size_t more) {
    if (b->len + more + 1 > b->cap) {
        b->cap = (b->len + more + 1) * 2;
        if (!(b->at = realloc(b->at, b->cap))) die("realloc");
    }
    return b->at + b->len;
}

static inline void append(struct bytes *b, const void *from, size_t n) {
    memcpy(reserve(b, n), from, n);
    b->len += n;
    b->at[b->len] = 0;
}

static inline void drop_front(struct bytes *b, size_t n) {
    memmove(b->at, b->at + n, b->len - n);
    b->len -= n;
    b->at[b->len] = 0;
}

static inline struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void no_delay(int fd) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static inline void prepare_process(void) {
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static inline void watch(int poll, int operation, int fd, uint32_t events, void *owner) {
    struct epoll_event e = {.events = events, .data.ptr = owner};
    epoll_ctl(poll, operation, fd, &e);
}

// The value of a header inside a NUL-terminated head; the name comes with "\r\n" and ":".
static inline const char *header(const char *head, const char *name) {
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) : NULL;
}
