// A load generator for benchmarks: many connections, one core, one line of JSON at the end.
//
//   load -p PORT [-P path] [-c connections] [-d seconds] [-n total] [-b body bytes]
//        [-s] [-m mock-N-D] [-r requests/s] [-R ramp ms] [-H "name: value"]... [-o] [-k requests]
//
// Without -r each connection asks again as soon as it was answered. With -r requests start
// at fixed times whatever the answers do, and are timed from when they were due. With -s it
// asks for a stream and times each chunk by the stamp that the provider put in it. With -o each
// request has a connection of its own. With -k the ###### in the path is a number that goes up
// every so many requests.
#include "common.h"

enum body_end { BY_LENGTH, BY_CHUNKS, BY_EOF };
enum chunk_part { SIZE_LINE, CONTENT, CONTENT_END, LAST_LINE };

struct connection {
    int fd;
    bool busy, writing, first_byte;
    uint64_t begun;
    size_t written;
    struct bytes head, text;
    bool head_done;
    int status;
    enum body_end end;
    enum chunk_part part;
    uint64_t left;      // of the body, or of the chunk
    char line[32];      // a chunk's size line so far
    size_t line_len;
    bool done_seen;
};

struct samples {
    uint64_t *at;
    size_t len, cap;
};

static int poll_fd, port = 8080, connections = 16;
static bool streams, one_each;
static double seconds = 5, rate, ramp_ms;
static long total, per_number;
static char *number_at;  // the six digits in the request
static size_t body_bytes = 400;
static const char *path = "/v1/chat/completions", *model = "mock-100-10";

static struct bytes request, headers;
static struct connection *all;
static struct samples first_bytes, wholes, chunks;
static long started, ok, failed, refused, waiting, finished, opened, live, peak;
static char problem[160];
static uint64_t start, end;

// --- what was measured

static void keep(struct samples *s, uint64_t value) {
    if (s->len == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 65536;
        if (!(s->at = realloc(s->at, s->cap * sizeof *s->at))) die("realloc");
    }
    s->at[s->len++] = value;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s) {
    static const struct { const char *name; double share; } points[] = {
        {"p50", .5}, {"p90", .9}, {"p99", .99}, {"max", 1}};
    qsort(s->at, s->len, sizeof *s->at, by_value);
    printf(",\"%s_us\":{", name);
    for (size_t i = 0; i < 4; i++) {
        printf("%s\"%s\":", i ? "," : "", points[i].name);
        if (s->len) printf("%.1f", (double)s->at[(size_t)(points[i].share * (double)(s->len - 1))] / 1e3);
        else printf("null");
    }
    printf("}");
}

static void report(void) {
    double took = (double)(now_ns() - start) / 1e9;
    for (char *p = problem; *p; p++)
        if (*p < 32 || *p == '"' || *p == '\\') *p = ' ';
    printf("{\"started\":%ld,\"ok\":%ld,\"failed\":%ld,\"refused\":%ld,\"waiting\":%ld,\"opened\":%ld,\"peak\":%ld,"
           "\"seconds\":%.3f,\"chunks\":%zu,\"finished_streams\":%ld",
           started, ok, failed, refused, waiting, opened, peak, took, chunks.len, finished);
    print_samples("first_byte", &first_bytes);
    print_samples("whole", &wholes);
    print_samples("chunk", &chunks);
    printf(",\"problem\":\"%s\"}\n", problem);
}

static void note(const char *what, const char *more) {
    if (!problem[0]) snprintf(problem, sizeof problem, "%s %.100s", what, more);
}

// --- asking

static void write_request(void) {
    struct bytes body = {0};
    char text[512];
    append(&body, text, (size_t)sprintf(text, "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\",\"content\":\"",
                                        model, streams ? "\"stream\":true,\"stream_options\":{\"include_usage\":true}," : ""));
    while (body.len + 30 < body_bytes) append(&body, "word ", 5);
    append(&body, "\"}],\"max_tokens\":512}", 21);
    append(&request, text, (size_t)sprintf(text,
        "POST %.200s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: application/json\r\n"
        "Content-Type: application/json\r\nUser-Agent: OpenAI/Python 3.0.0\r\n"
        "X-Stainless-Lang: python\r\nX-Stainless-Retry-Count: 0\r\n"
        "Authorization: Bearer sk-bench-000000000000000000000000\r\nContent-Length: %zu\r\n",
        path, port, body.len));
    if (headers.len) append(&request, headers.at, headers.len);
    append(&request, "\r\n", 2);
    append(&request, body.at, body.len);
    number_at = per_number ? memmem(request.at, request.len, "######", 6) : NULL;
    free(body.at);
}

// Write the number of this request's group over the digits. The buffer is everybody's: a request
// that waits for its connection may take a later number, which is as good.
static void number(void) {
    char digits[24];
    snprintf(digits, sizeof digits, "%06ld", started / per_number % 1000000);
    memcpy(number_at, digits, 6);
}

static void want_writing(struct connection *c, bool wanted) {
    if (c->writing == wanted) return;
    c->writing = wanted;
    watch(poll_fd, EPOLL_CTL_MOD, c->fd, EPOLLIN | (wanted ? EPOLLOUT : 0), c);
}

static void release(struct connection *c) {
    c->busy = false;
    live--;
}

static void hang_up(struct connection *c) {
    close(c->fd);
    c->fd = -1;
}

static void fail(struct connection *c, const char *why) {
    if (c->busy) {
        note(why, c->status ? "after the head" : "before the head");
        failed++;
        release(c);
    }
    hang_up(c);
}

static void write_on(struct connection *c) {
    while (c->written < request.len) {
        ssize_t n = send(c->fd, request.at + c->written, request.len - c->written, 0);
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return want_writing(c, true);
        if (n < 0) return fail(c, "writing failed");
        c->written += (size_t)n;
    }
    want_writing(c, false);
}

static bool connect_to(struct connection *c) {
    struct sockaddr_in there = loopback(port);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) return false;
    no_delay(c->fd);
    if (connect(c->fd, (void *)&there, sizeof there) && errno != EINPROGRESS) return false;
    opened++;
    c->writing = true;
    watch(poll_fd, EPOLL_CTL_ADD, c->fd, EPOLLIN | EPOLLOUT, c);
    return true;
}

static void ask(struct connection *c, uint64_t due) {
    c->busy = true;
    c->begun = due;
    c->written = c->head.len = c->text.len = c->line_len = 0;
    c->head_done = c->first_byte = c->done_seen = false;
    c->status = 0;
    c->part = SIZE_LINE;
    if (number_at) number();
    started++;
    if (++live > peak) peak = live;
    if (c->fd >= 0) return write_on(c);
    if (!connect_to(c)) {
        note("cannot connect", strerror(errno));
        failed++;
        release(c);
        if (c->fd >= 0) hang_up(c);
    }
}

// --- hearing

static void hear_text(struct connection *c, const char *text, size_t len) {
    if (!streams) return;
    append(&c->text, text, len);
    uint64_t now = now_ns();
    char *from = c->text.at, *stop = c->text.at + c->text.len;
    for (char *stamp; (stamp = memmem(from, (size_t)(stop - from), "@T=", 3)) && stop - stamp >= 23;
         from = stamp + 23) {
        uint64_t sent = strtoull(stamp + 3, NULL, 10);
        keep(&chunks, now > sent ? now - sent : 0);
    }
    if (memmem(from, (size_t)(stop - from), "[DONE]", 6)) c->done_seen = true;
    size_t unread = (size_t)(stop - from) < 32 ? (size_t)(stop - from) : 32;
    drop_front(&c->text, c->text.len - unread);
}

// Take one chunked body's bytes; true when its last has come.
static bool hear_chunks(struct connection *c, const char *b, size_t len) {
    for (const char *stop = b + len; b < stop;) {
        if (c->part == CONTENT) {
            size_t n = (size_t)(stop - b) < c->left ? (size_t)(stop - b) : c->left;
            hear_text(c, b, n);
            b += n;
            if (!(c->left -= n)) c->part = CONTENT_END;
            continue;
        }
        char byte = *b++;
        if (byte != '\n') {
            if (c->line_len < sizeof c->line - 1) c->line[c->line_len++] = byte;
            continue;
        }
        c->line[c->line_len] = 0;
        bool blank = c->line_len <= 1;
        c->line_len = 0;
        if (c->part == LAST_LINE && blank) return true;
        if (c->part == CONTENT_END) c->part = SIZE_LINE;
        else if (c->part == SIZE_LINE)
            c->part = (c->left = strtoul(c->line, NULL, 16)) ? CONTENT : LAST_LINE;
    }
    return false;
}

static bool hear_body(struct connection *c, const char *b, size_t len) {
    if (c->end == BY_CHUNKS) return hear_chunks(c, b, len);
    hear_text(c, b, len);
    if (c->end == BY_EOF) return false;
    c->left -= len < c->left ? len : c->left;
    return !c->left;
}

static void read_head(struct connection *c) {
    c->status = atoi(c->head.at + 9);
    const char *length = header(c->head.at, "\r\ncontent-length:");
    if (header(c->head.at, "\r\ntransfer-encoding: chunked")) c->end = BY_CHUNKS;
    else c->end = length ? BY_LENGTH : BY_EOF;
    c->left = length ? strtoul(length, NULL, 10) : 0;
    c->head_done = true;
}

static bool hear(struct connection *c, const char *b, size_t len) {
    if (!c->first_byte) {
        c->first_byte = true;
        keep(&first_bytes, now_ns() - c->begun);
    }
    if (c->head_done) return hear_body(c, b, len);
    append(&c->head, b, len);
    char *stop = memmem(c->head.at, c->head.len, "\r\n\r\n", 4);
    if (!stop) return false;
    size_t rest = c->head.len - (size_t)(stop + 4 - c->head.at);
    stop[2] = 0;
    read_head(c);
    return hear_body(c, stop + 4, rest);
}

static void answered(struct connection *c) {
    uint64_t now = now_ns();
    release(c);
    if (c->status != 200) {
        refused++;
        note("refused:", c->head.at);
    } else {
        ok++;
        finished += c->done_seen;
        keep(&wholes, now - c->begun);
    }
    if (one_each || c->end == BY_EOF || header(c->head.at, "\r\nconnection: close")) hang_up(c);
    if (!rate && now < end && (!total || started < total)) ask(c, now);
}

static void read_from(struct connection *c) {
    static char buffer[65536];
    while (c->fd >= 0) {
        ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n == 0 && c->busy && c->head_done && c->end == BY_EOF) return answered(c);
        if (n <= 0) return fail(c, n ? strerror(errno) : "cut");
        if (!c->busy) return fail(c, "bytes nobody asked for");
        if (hear(c, buffer, (size_t)n)) return answered(c);
    }
}

// --- when to ask

static struct connection *idle(void) {
    static int from;
    for (int i = 0; i < connections; i++) {
        struct connection *c = &all[(from + i) % connections];
        if (!c->busy) {
            from = (from + i) % connections;  // the same few stay warm at low rates
            return c;
        }
    }
    return NULL;
}

// Start what is due; return when to look again.
static uint64_t start_due(uint64_t now) {
    bool more = now < end && (!total || started < total);
    if (rate) {
        uint64_t gap = (uint64_t)(1e9 / rate), due = start + gap * (uint64_t)started;
        struct connection *c;
        for (; more && due <= now && due < end && (c = idle()); due += gap) ask(c, due);
        return more && due > now ? due : now + SECOND / 500;
    }
    uint64_t ramp = (uint64_t)(ramp_ms * 1e6);
    for (int i = 0; i < connections && more; i++) {
        uint64_t due = start + ramp * (uint64_t)i / (uint64_t)connections;
        if (due > now) return due;
        if (!all[i].busy && (!total || started < total)) ask(&all[i], now);
    }
    return now + SECOND / 100;
}

static bool over(uint64_t now) {
    bool asked_all = now >= end || (total && started >= total);
    if (asked_all && !live) return true;
    if (now < end + 30 * SECOND) return false;
    note("still waiting at the end", "");
    failed += waiting = live;
    return true;
}

static void options(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "p:P:c:d:n:b:sm:r:R:H:ok:")) > 0;) switch (o) {
        case 'p': port = atoi(optarg); break;
        case 'P': path = optarg; break;
        case 'c': connections = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'n': total = atol(optarg); break;
        case 'b': body_bytes = strtoul(optarg, NULL, 10); break;
        case 's': streams = true; break;
        case 'm': model = optarg; break;
        case 'r': rate = atof(optarg); break;
        case 'R': ramp_ms = atof(optarg); break;
        case 'H': append(&headers, optarg, strlen(optarg)), append(&headers, "\r\n", 2); break;
        case 'o': one_each = true; break;
        case 'k': per_number = atol(optarg); break;
        default: exit(2);
    }
}

int main(int argc, char **argv) {
    prepare_process();
    options(argc, argv);
    write_request();
    poll_fd = epoll_create1(0);
    if (!(all = calloc((size_t)connections, sizeof *all))) die("calloc");
    for (int i = 0; i < connections; i++) all[i].fd = -1;
    start = now_ns();
    end = start + (uint64_t)(seconds * 1e9);
    struct epoll_event events[1024];
    for (uint64_t now = start; !over(now); now = now_ns()) {
        struct timespec wait = until(start_due(now), now_ns());
        int n = epoll_pwait2(poll_fd, events, 1024, &wait, NULL);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->fd >= 0 && events[i].events & EPOLLOUT) {
                if (c->busy) write_on(c);
                else want_writing(c, false);
            }
            if (c->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_from(c);
        }
    }
    report();
    return 0;
}
