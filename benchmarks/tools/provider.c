// A provider for benchmarks: answers chat completions as fast as one core can.
//
//   provider PORT [requests=N] [tokens=N] [left=N] [delay=MS] [unstated]
//
// A body with "stream":true and a model called mock-N-D is answered by N chunks, D ms apart
// (0: back to back), each stamped @T=<ns> when it was sent; anything else by 1.5 kB of JSON.
//
// With a limit of requests or tokens a minute it keeps token buckets, as OpenAI does: a call takes
// one request and a token for each 4 bytes of its body, and is answered after the delay; what finds
// too little is a 429. They are full at first, or have as much as is left. Answers state what is left, unless unstated. GET tells what it counted, and
// SIGUSR1 halves both limits.
#include "common.h"

struct call {
    int fd;
    struct bytes in, out;
    size_t sent;
    bool writing;      // EPOLLOUT is on
    bool streaming;
    bool delayed;      // what is in out is sent when it is due
    int chunks_left;
    uint64_t gap, due;
    long place;        // in the heap of due chunks, -1 when not there
    struct call *next_dead;
};

static int poll_fd;
static struct bytes whole_answer;
static struct call *dead;  // freed after the batch of events that may still name them

// --- a heap of calls by the time of their next chunk

static struct call **heap;
static long heap_len, heap_cap;

static void place(struct call *c, long at) {
    heap[at] = c;
    c->place = at;
}

static void sift(struct call *c, long at) {
    for (; at && heap[(at - 1) / 2]->due > c->due; at = (at - 1) / 2) place(heap[(at - 1) / 2], at);
    for (long child; (child = 2 * at + 1) < heap_len; at = child) {
        if (child + 1 < heap_len && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= c->due) break;
        place(heap[child], at);
    }
    place(c, at);
}

static void schedule(struct call *c) {
    if (heap_len == heap_cap) {
        heap_cap = heap_cap ? heap_cap * 2 : 1024;
        if (!(heap = realloc(heap, (size_t)heap_cap * sizeof *heap))) die("realloc");
    }
    sift(c, heap_len++);
}

static void unschedule(struct call *c) {
    if (c->place < 0) return;
    struct call *last = heap[--heap_len];
    if (last != c) sift(last, c->place);
    c->place = -1;
}

// --- connections

static void hang_up(struct call *c) {
    if (c->fd < 0) return;
    unschedule(c);
    close(c->fd);
    c->fd = -1;
    c->next_dead = dead;
    dead = c;
}

static void bury(void) {
    while (dead) {
        struct call *c = dead;
        dead = c->next_dead;
        free(c->in.at);
        free(c->out.at);
        free(c);
    }
}

static void want_writing(struct call *c, bool wanted) {
    if (c->writing == wanted) return;
    c->writing = wanted;
    watch(poll_fd, EPOLL_CTL_MOD, c->fd, EPOLLIN | (wanted ? EPOLLOUT : 0), c);
}

static void flush(struct call *c) {
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.at + c->sent, c->out.len - c->sent, 0);
        if (n < 0 && errno == EAGAIN) return want_writing(c, true);
        if (n < 0) return hang_up(c);
        c->sent += (size_t)n;
    }
    c->sent = c->out.len = 0;
    want_writing(c, false);
}

// --- answers

#define CHUNK_HEAD \
    "data: {\"id\":\"chatcmpl-bench00000000000000000000001\",\"object\":" \
    "\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"bench-model-2026-01-01\","
#define USAGE \
    "\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":%d,\"total_tokens\":%d," \
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0}," \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0," \
    "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}"

static void say_chunk(struct call *c, const char *text, int len) {
    char line[16];
    append(&c->out, line, (size_t)sprintf(line, "%x\r\n", (unsigned)len));
    append(&c->out, text, (size_t)len);
    append(&c->out, "\r\n", 2);
}

static void say_next(struct call *c) {
    char text[2048];
    int len;
    if (c->delayed) {
        c->delayed = c->streaming = false;
        return flush(c);
    }
    if (c->chunks_left-- > 0) {
        len = sprintf(text,
                      CHUNK_HEAD "\"choices\":[{\"index\":0,\"delta\":{\"content\":"
                                 "\"@T=%020lu word\"},\"finish_reason\":null}]}\n\n",
                      (unsigned long)now_ns());
        say_chunk(c, text, len);
    } else {
        len = sprintf(text,
                      CHUNK_HEAD "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                                 "\"stop\"}]}\n\n" CHUNK_HEAD "\"choices\":[]," USAGE
                                 "}\n\ndata: [DONE]\n\n", 100, 1000);
        say_chunk(c, text, len);
        append(&c->out, "0\r\n\r\n", 5);
        c->streaming = false;
    }
    flush(c);
}

static void start_stream(struct call *c, int chunks, int gap_ms) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        "cache-control: no-cache\r\nx-request-id: req_00000000000000000000000000000001\r\n"
        "openai-processing-ms: 10\r\ntransfer-encoding: chunked\r\n\r\n";
    append(&c->out, head, sizeof head - 1);
    c->streaming = true;
    c->chunks_left = chunks;
    c->gap = (uint64_t)gap_ms * (SECOND / 1000);
    if (!c->gap)
        while (c->fd >= 0 && c->streaming) say_next(c);
    else {
        c->due = now_ns() + c->gap;
        say_next(c);
        if (c->fd >= 0) schedule(c);
    }
}

// --- buckets

static struct bucket {
    const char *unit;
    double limit, level;  // a minute; what is left of it
    double refilled;      // all that came back, also what found it full
} buckets[] = {{.unit = "requests"}, {.unit = "tokens"}};

enum { BUCKETS = sizeof buckets / sizeof *buckets };
static volatile sig_atomic_t halvings;
static bool limited, unstated;
static double left = 1e300;
static uint64_t delay, filled_at;
static unsigned long answered, refused;
static double tokens_spent;

static void count_halving(int number) {
    (void)number;
    halvings++;
}

static void fill_buckets(void) {
    uint64_t now = now_ns();
    double minutes = (double)(now - filled_at) / (60.0 * SECOND);
    filled_at = now;
    for (; halvings; halvings--)
        for (int i = 0; i < BUCKETS; i++) buckets[i].limit /= 2;
    for (struct bucket *b = buckets; b < buckets + BUCKETS; b++) {
        b->refilled += b->limit * minutes;
        b->level += b->limit * minutes;
        if (b->level > b->limit) b->level = b->limit;
    }
}

static void say_json(struct call *c, const char *status, const char *heads, const char *body) {
    char head[1024];
    int len = sprintf(head, "HTTP/1.1 %s\r\ncontent-type: application/json\r\n%scontent-length: %zu"
                            "\r\n\r\n", status, heads, strlen(body));
    append(&c->out, head, (size_t)len);
    append(&c->out, body, strlen(body));
}

static void say_counts(struct call *c) {
    char body[256];
    fill_buckets();
    sprintf(body, "{\"answered\":%lu,\"refused\":%lu,\"spent\":%.0f,\"requests\":%.3f,\"tokens\":%.3f}", answered,
            refused, tokens_spent, buckets[0].refilled, buckets[1].refilled);
    say_json(c, "200 OK", "", body);
    flush(c);
}

// Answer as a provider whose limits are real.
static void answer_within_limits(struct call *c, size_t len) {
    double costs[BUCKETS] = {1, (double)(len / 4)}, short_s = 0;
    char heads[768], body[512], *at = heads;
    *at = 0;
    fill_buckets();
    for (int i = 0; i < BUCKETS; i++) {
        struct bucket *b = &buckets[i];
        double missing = b->limit ? costs[i] - b->level : 0;
        if (missing > 0 && missing * 60 / b->limit > short_s) short_s = missing * 60 / b->limit;
    }
    for (int i = 0; i < BUCKETS; i++) {
        struct bucket *b = &buckets[i];
        if (!b->limit) continue;
        if (!short_s) b->level -= costs[i];
        if (!unstated)
            at += sprintf(at, "x-ratelimit-limit-%s: %.0f\r\nx-ratelimit-remaining-%s: %ld\r\n"
                              "x-ratelimit-reset-%s: %.3fs\r\n", b->unit, b->limit, b->unit,
                          (long)b->level, b->unit,
                          (b->limit - b->level) * 60 / b->limit);
    }
    if (short_s) {
        refused++;
        sprintf(at, "retry-after-ms: %.0f\r\n", short_s * 1000 + 1);
        say_json(c, "429 Too Many Requests", heads,
                 "{\"error\":{\"message\":\"Rate limit reached for bench-model.\",\"type\":"
                 "\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}");
        return flush(c);
    }
    answered++;
    tokens_spent += costs[1];
    sprintf(body, "{\"id\":\"chatcmpl-bench01\",\"object\":\"chat.completion\",\"created\":1790000000,"
                  "\"model\":\"bench-model\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
                  "\"assistant\",\"content\":\"done\"},\"finish_reason\":\"stop\"}],\"usage\":{"
                  "\"prompt_tokens\":%.0f,\"completion_tokens\":0,\"total_tokens\":%.0f}}",
            costs[1], costs[1]);
    say_json(c, "200 OK", heads, body);
    if (!delay) return flush(c);
    c->streaming = c->delayed = true;
    c->gap = 0;
    c->due = now_ns() + delay;
    schedule(c);
}

static bool take_option(const char *option) {
    if (sscanf(option, "requests=%lf", &buckets[0].limit) == 1 ||
        sscanf(option, "tokens=%lf", &buckets[1].limit) == 1) return limited = true;
    if (sscanf(option, "left=%lf", &left) == 1) return true;
    int ms;
    if (sscanf(option, "delay=%d", &ms) == 1) return delay = (uint64_t)ms * (SECOND / 1000), true;
    return !strcmp(option, "unstated") && (unstated = true);
}

static void answer(struct call *c, const char *body, size_t len) {
    int chunks = 100, gap_ms = 0;
    if (limited) {
        if (!strncmp(c->in.at, "GET ", 4)) return say_counts(c);
        return answer_within_limits(c, len);
    }
    if (!memmem(body, len, "\"stream\":true", 13)) {
        append(&c->out, whole_answer.at, whole_answer.len);
        return flush(c);
    }
    const char *model = memmem(body, len, "mock-", 5);
    if (model) sscanf(model, "mock-%d-%d", &chunks, &gap_ms);
    start_stream(c, chunks, gap_ms);
}

static void write_whole_answer(void) {
    char content[880], head[512], body[4096];
    memset(content, 'o', sizeof content);
    for (size_t i = 6; i < sizeof content; i += 7) content[i] = ' ';
    content[sizeof content - 1] = 0;
    int len = sprintf(body,
                      "{\"id\":\"chatcmpl-bench00000000000000000000001\",\"object\":"
                      "\"chat.completion\",\"created\":1790000000,\"model\":"
                      "\"bench-model-2026-01-01\",\"choices\":[{\"index\":0,\"message\":{"
                      "\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null},"
                      "\"logprobs\":null,\"finish_reason\":\"stop\"}]," USAGE
                      ",\"service_tier\":\"default\"}", content, 210, 1110);
    int n = sprintf(head,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    "x-request-id: req_00000000000000000000000000000001\r\n"
                    "openai-processing-ms: 10\r\nx-ratelimit-limit-requests: 10000\r\n"
                    "x-ratelimit-remaining-requests: 9999\r\ncontent-length: %d\r\n\r\n", len);
    append(&whole_answer, head, (size_t)n);
    append(&whole_answer, body, (size_t)len);
}

// --- requests

// The length of a whole chunked body at the front of b, its content moved to the front of
// it; 0 while it is not whole.
static size_t dechunk(char *b, size_t len, size_t *content) {
    char *from = b, *to = b, *end = b + len;
    for (int pass = 0; pass < 2; pass++) {  // look first, move only what is whole
        for (from = to = b;;) {
            char *line = memmem(from, (size_t)(end - from), "\r\n", 2);
            if (!line) return 0;
            size_t size = strtoul(from, NULL, 16);
            if ((size_t)(end - line) < size + 4) return 0;
            if (pass) memmove(to, line + 2, size);
            to += size;
            from = line + 2 + size + 2;
            if (!size) break;
        }
    }
    *content = (size_t)(to - b);
    return (size_t)(from - b);
}

// Answer one request at the front of the buffer; false while it is not whole.
static bool serve_one(struct call *c) {
    char *end = c->in.len ? memmem(c->in.at, c->in.len, "\r\n\r\n", 4) : NULL;
    if (!end) return false;
    size_t head = (size_t)(end + 4 - c->in.at), body, used;
    *end = 0;
    const char *length = header(c->in.at, "\r\ncontent-length:");
    bool chunked = header(c->in.at, "\r\ntransfer-encoding: chunked");
    *end = '\r';
    if (chunked) {
        if (!(used = dechunk(c->in.at + head, c->in.len - head, &body))) return false;
    } else {
        used = body = length ? strtoul(length, NULL, 10) : 0;
        if (c->in.len - head < body) return false;
    }
    answer(c, c->in.at + head, body);
    if (c->fd >= 0) drop_front(&c->in, head + used);
    return c->fd >= 0;
}

static void read_from(struct call *c) {
    for (;;) {
        ssize_t n = recv(c->fd, reserve(&c->in, 65536), 65536, 0);
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) return hang_up(c);
        c->in.len += (size_t)n;
        c->in.at[c->in.len] = 0;
        if (n < 65536) break;
    }
    while (!c->streaming && serve_one(c)) {}
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        struct call *c = calloc(1, sizeof *c);
        if (!c) die("calloc");
        c->fd = fd;
        c->place = -1;
        no_delay(fd);
        watch(poll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, c);
    }
}

static void send_due_chunks(void) {
    for (uint64_t now = now_ns(); heap_len && heap[0]->due <= now;) {
        struct call *c = heap[0];
        unschedule(c);
        c->due += c->gap;
        say_next(c);
        if (c->fd < 0) continue;
        if (c->streaming) schedule(c);
        else while (serve_one(c)) {}
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    struct sockaddr_in here = loopback(port);
    if (bind(fd, (void *)&here, sizeof here) || listen(fd, 4096)) die("listen");
    return fd;
}

int main(int argc, char **argv) {
    bool usable = argc > 1;
    for (int i = 2; i < argc; i++) usable &= take_option(argv[i]);
    if (!usable)
        return fprintf(stderr, "usage: provider PORT [requests=N] [tokens=N] [left=N] [delay=MS] [unstated]\n"), 2;
    prepare_process();
    signal(SIGUSR1, count_halving);
    filled_at = now_ns();
    for (int i = 0; i < BUCKETS; i++) buckets[i].level = buckets[i].limit < left ? buckets[i].limit : left;
    write_whole_answer();
    int listener = listen_on(atoi(argv[1]));
    poll_fd = epoll_create1(0);
    watch(poll_fd, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    for (struct epoll_event events[512];;) {
        struct timespec wait = heap_len ? until(heap[0]->due, now_ns()) : (struct timespec){0};
        int n = epoll_pwait2(poll_fd, events, 512, heap_len ? &wait : NULL, NULL);
        for (int i = 0; i < n; i++) {
            struct call *c = events[i].data.ptr;
            if (!c) { accept_all(listener); continue; }
            if (c->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_from(c);
            if (c->fd >= 0 && events[i].events & EPOLLOUT) flush(c);
        }
        send_due_chunks();
        bury();
    }
}
