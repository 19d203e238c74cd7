/* Deals the pieces of a loop out to threads. What a piece writes is its own, so no number changes.

   One core reads weights at the speed that a core gets, and several get more. But a product takes
   10 to 100 us, and waking a thread takes as long. So helpers look out for the next loop for a
   while before they sleep, and pieces are taken one by one, by whoever is free: a helper that has
   no core just now takes none, and nobody waits for it. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_THREADS = 64 };
enum { LOOKS = 5000 };    /* 0.1 to 0.3 ms: longer than from one product of a token to the next */
enum { PATIENCE = 2000 }; /* looks at who is not ready yet, before our core is offered to them */

typedef void (*piece)(const void *told, int first, int end);

static struct {
    atomic_int threads;             /* that may compute, the caller among them */
    atomic_flag taken;              /* by a loop: what another thread begins meanwhile, it does alone */
    atomic_int open, inside, next;  /* may helpers enter; how many have; the next piece */
    atomic_int loops, asleep;       /* begun so far; helpers that wait to be called */
    int helpers, n, pieces;         /* started so far; of the loop, and how often it is cut */
    piece run;
    const void *told;
    pthread_mutex_t lock;
    pthread_cond_t called;
} team = {1, ATOMIC_FLAG_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};

static void look_away(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int cut(int i) { return (int)((int64_t)team.n * i / team.pieces); }

static void take_pieces(void) {
    for (int i; (i = atomic_fetch_add(&team.next, 1)) < team.pieces;)
        team.run(team.told, cut(i), cut(i + 1));
}

/* Wait until a loop begins, or another one has begun than when we looked last. */
static void sleep_until_called(int loops) {
    pthread_mutex_lock(&team.lock);
    atomic_fetch_add(&team.asleep, 1);
    while (atomic_load(&team.loops) == loops) pthread_cond_wait(&team.called, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

static void *helper(void *number) {
    for (int looks = 0, loops = 0;;) {
        if (atomic_load(&team.open) && (ptrdiff_t)number < atomic_load(&team.threads)) {
            atomic_fetch_add(&team.inside, 1);
            if (atomic_load(&team.open)) take_pieces(); /* else it ended before we were inside */
            atomic_fetch_sub(&team.inside, 1);
            looks = 0;
        } else if (looks++ == 0) {
            loops = atomic_load(&team.loops);
        } else if (looks < LOOKS) {
            look_away();
        } else {
            sleep_until_called(loops);
            looks = 0;
        }
    }
    return NULL;
}

/* A child process has no helpers, whatever its parent's were doing. */
static void begin_anew(void) {
    team.helpers = 0;
    atomic_store(&team.open, 0), atomic_store(&team.inside, 0), atomic_store(&team.asleep, 0);
    atomic_flag_clear(&team.taken);
    pthread_mutex_init(&team.lock, NULL), pthread_cond_init(&team.called, NULL);
}

static void start_helpers(int wanted) {
    static int knows_of_forks = 0;
    if (!knows_of_forks) knows_of_forks = !pthread_atfork(NULL, NULL, begin_anew);
    for (; team.helpers < wanted; team.helpers++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, helper, (void *)(ptrdiff_t)(team.helpers + 1))) return;
        pthread_detach(thread);
    }
}

/* Let so many threads compute from now on. */
void team_threads(int threads) {
    atomic_store(&team.threads, threads < MOST_THREADS ? threads : MOST_THREADS);
}

/* Call run(told, first, end) for pieces of 0 to n: a few for each thread, as one may come late. */
static void in_pieces(int n, piece run, const void *told) {
    int threads = atomic_load(&team.threads);
    if (n < 2 || threads < 2 || atomic_flag_test_and_set(&team.taken)) {
        run(told, 0, n);
        return;
    }
    start_helpers(threads - 1);
    team.n = n, team.pieces = n < 4 * threads ? n : 4 * threads;
    team.run = run, team.told = told;
    atomic_store(&team.next, 0);
    atomic_store(&team.open, 1);
    atomic_fetch_add(&team.loops, 1);
    if (atomic_load(&team.asleep)) {
        pthread_mutex_lock(&team.lock);
        atomic_store(&team.asleep, 0);
        pthread_cond_broadcast(&team.called);
        pthread_mutex_unlock(&team.lock);
    }
    take_pieces();
    atomic_store(&team.open, 0); /* whoever is inside has a piece, or finds that there is none */
    for (int looks = 0; atomic_load(&team.inside); looks++)
        looks < PATIENCE ? look_away() : (void)sched_yield();
    atomic_flag_clear(&team.taken);
}
