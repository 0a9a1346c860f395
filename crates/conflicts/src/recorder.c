/* Which cache lines does a stretch of instrumented code touch?
 *
 * The compiler's ThreadSanitizer pass puts a call before every load, store and atomic operation,
 * and at every function entry and exit. These are those calls, with no race detection behind them:
 * between recorder_begin and recorder_end the calling thread's accesses are noted, one entry a line
 * of 64 bytes, with the bytes touched and the stack of the first read and the first write. The file
 * is C because it must not be instrumented itself.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define LINE 64u
#define FRAMES 12u
#define LINES (1u << 17)
#define SLOTS (1u << 18)
#define STACK 1024u

struct side {
    uint64_t bytes;          /* one bit a byte of the line */
    uint64_t depth;          /* frames that are filled */
    uintptr_t frames[FRAMES]; /* the access itself, then its callers outwards */
};

struct line {
    uintptr_t address;
    struct side read, write;
    uint32_t modifies;       /* read-modify-writes */
    uint32_t stores;         /* atomic stores */
};

struct recorder {
    struct line *lines;   /* LINES */
    uint32_t *slots;      /* SLOTS: index into lines plus one; open addressing */
    uint32_t used;
    int overflow;
    uint32_t depth;       /* of the shadow stack; may run past STACK */
    uintptr_t stack[STACK];
};

static __thread struct recorder *own;
static __thread int on;

static struct recorder *recorder(void) {
    if (!own) {
        own = calloc(1, sizeof *own);
        own->lines = calloc(LINES, sizeof *own->lines);
        own->slots = calloc(SLOTS, sizeof *own->slots);
    }
    return own;
}

static uint32_t start_of(uintptr_t address) {
    return (uint32_t)((address / LINE) * 0x9E3779B97F4A7C15ull >> 40) & (SLOTS - 1);
}

void recorder_begin(void) {
    struct recorder *r = recorder();
    for (uint32_t i = 0; i < r->used; i++) {
        uint32_t s = start_of(r->lines[i].address);
        while (r->slots[s]) { r->slots[s] = 0; s = (s + 1) & (SLOTS - 1); }
    }
    r->used = 0;
    r->overflow = 0;
    r->depth = 0;
    on = 1;
}

/* How many lines were touched; -1 if there were too many to note. */
ptrdiff_t recorder_end(void) {
    on = 0;
    return own->overflow ? -1 : (ptrdiff_t)own->used;
}

/* Valid until this thread's next recorder_begin. */
const struct line *recorder_lines(void) { return own->lines; }

static struct line *find(struct recorder *r, uintptr_t address) {
    uint32_t s = start_of(address);
    for (; r->slots[s]; s = (s + 1) & (SLOTS - 1))
        if (r->lines[r->slots[s] - 1].address == address) return &r->lines[r->slots[s] - 1];
    if (r->used == LINES) { r->overflow = 1; return 0; }
    struct line *l = &r->lines[r->used++];
    l->address = address;
    l->read.bytes = l->write.bytes = 0;
    l->modifies = l->stores = 0;
    r->slots[s] = r->used;
    return l;
}

static void note(uintptr_t address, size_t size, int writes, uintptr_t pc) {
    struct recorder *r = own;
    uintptr_t end = address + size;
    while (address < end) {
        uintptr_t base = address & ~(uintptr_t)(LINE - 1);
        size_t from = address - base, to = end - base < LINE ? end - base : LINE;
        struct line *l = find(r, base);
        if (!l) return;
        struct side *side = writes ? &l->write : &l->read;
        if (!side->bytes) {
            uint32_t depth = r->depth < STACK ? r->depth : STACK, n = 1;
            side->frames[0] = pc;
            for (; n < FRAMES && n <= depth; n++) side->frames[n] = r->stack[depth - n];
            side->depth = n;
        }
        uint64_t below_to = to == 64 ? ~0ull : (1ull << to) - 1;
        side->bytes |= below_to & ~((1ull << from) - 1);
        address = base + LINE;
    }
}

#define PC ((uintptr_t)__builtin_return_address(0))
#define READ(a, n) do { if (on) note((uintptr_t)(a), (n), 0, PC); } while (0)
#define WRITE(a, n) do { if (on) note((uintptr_t)(a), (n), 1, PC); } while (0)
/* Atomics never cross a line. */
#define COUNT(a, what) do { if (on) { \
    struct line *l = find(own, (uintptr_t)(a) & ~(uintptr_t)(LINE - 1)); if (l) l->what++; } } while (0)

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
    if (on) {
        if (own->depth < STACK) own->stack[own->depth] = (uintptr_t)caller;
        own->depth++;
    }
}
void __tsan_func_exit(void) { if (on && own->depth) own->depth--; }
void __tsan_ignore_thread_begin(void) {}
void __tsan_ignore_thread_end(void) {}
void __tsan_vptr_update(void **a, void *v) { (void)v; WRITE(a, 8); }
void __tsan_vptr_read(void **a) { READ(a, 8); }
void __tsan_read_range(void *a, size_t n) { READ(a, n); }
void __tsan_write_range(void *a, size_t n) { WRITE(a, n); }

#define PLAIN(N) \
    void __tsan_read##N(void *a) { READ(a, N); } \
    void __tsan_write##N(void *a) { WRITE(a, N); } \
    void __tsan_unaligned_read##N(void *a) { READ(a, N); } \
    void __tsan_unaligned_write##N(void *a) { WRITE(a, N); } \
    void __tsan_read_write##N(void *a) { READ(a, N); WRITE(a, N); } \
    void __tsan_unaligned_read_write##N(void *a) { READ(a, N); WRITE(a, N); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)

void *__tsan_memcpy(void *d, const void *s, size_t n) {
    READ(s, n); WRITE(d, n);
    return __builtin_memcpy(d, s, n);
}
void *__tsan_memmove(void *d, const void *s, size_t n) {
    READ(s, n); WRITE(d, n);
    return __builtin_memmove(d, s, n);
}
void *__tsan_memset(void *d, int c, size_t n) { WRITE(d, n); return __builtin_memset(d, c, n); }

/* Comparisons go to the C library, which is not instrumented: names would be read unseen. */
int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < n && x[i] == y[i]) i++;
    size_t seen = i < n ? i + 1 : n;
    READ(a, seen); READ(b, seen);
    return i < n ? x[i] - y[i] : 0;
}
int bcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < n && x[i] == y[i]) i++;
    size_t seen = i < n ? i + 1 : n;
    READ(a, seen); READ(b, seen);
    return i < n;
}

/* Every ordering is answered by the strongest. A failed exchange counts as a write: it takes the
 * line away from the others all the same. */
#define SC __ATOMIC_SEQ_CST
#define MODIFY(B, T, NAME) \
    T __tsan_atomic##B##_fetch_##NAME(volatile T *a, T v, int m) { \
        (void)m; READ(a, B / 8); WRITE(a, B / 8); COUNT(a, modifies); return __atomic_fetch_##NAME(a, v, SC); }
#define ATOMIC(B, T) \
    T __tsan_atomic##B##_load(const volatile T *a, int m) { \
        (void)m; READ(a, B / 8); return __atomic_load_n(a, SC); } \
    void __tsan_atomic##B##_store(volatile T *a, T v, int m) { \
        (void)m; WRITE(a, B / 8); COUNT(a, stores); __atomic_store_n(a, v, SC); } \
    T __tsan_atomic##B##_exchange(volatile T *a, T v, int m) { \
        (void)m; READ(a, B / 8); WRITE(a, B / 8); COUNT(a, modifies); return __atomic_exchange_n(a, v, SC); } \
    T __tsan_atomic##B##_compare_exchange_val(volatile T *a, T c, T v, int m, int f) { \
        (void)m; (void)f; READ(a, B / 8); WRITE(a, B / 8); COUNT(a, modifies); \
        __atomic_compare_exchange_n(a, &c, v, 0, SC, SC); return c; } \
    MODIFY(B, T, add) MODIFY(B, T, sub) MODIFY(B, T, and) MODIFY(B, T, or) MODIFY(B, T, xor) \
    MODIFY(B, T, nand)
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int m) { (void)m; __atomic_thread_fence(SC); }
void __tsan_atomic_signal_fence(int m) { (void)m; }
