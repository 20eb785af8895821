/* guard.c: who may use an engine now.
 *
 * `busy` is 0 where nobody uses the engine, -1 while a call changes it or its buffers, and otherwise the number of calls that only
 * read it. A call that may not come in is refused and changes nothing but the flag `refused`, from which sosmc_message knows what to
 * say: it may stand in a callback, on any thread. A callback that never returns leaves `busy` as it is, and with it an engine
 * that refuses everything but sosmc_free. */
#include "engine_inside.h"

const char *const SOSMC_I_REFUSED =
    "the engine was used while a call that works on it had not returned: inside one of its callbacks, from a second thread, or after a "
    "callback left that call by longjmp or an exception; a step during which this happens fails, and one that was left cannot go on";

sosmc_status sosmc_i_enter(const sosmc *s)
{
    sosmc *engine = (sosmc *)s; /* sosmc_hash, which changes nothing that is seen, uses the engine's buffers */
    int idle = 0;
    if (!atomic_compare_exchange_strong(&engine->busy, &idle, -1)) {
        atomic_store(&engine->refused, 1);
        return SOSMC_EINVAL;
    }
    atomic_store(&engine->refused, 0);
    return SOSMC_OK;
}

sosmc_status sosmc_i_leave(const sosmc *s, sosmc_status status)
{
    atomic_store(&((sosmc *)s)->busy, 0);
    return status;
}

sosmc_status sosmc_i_enter_reading(const sosmc *s)
{
    sosmc *engine = (sosmc *)s;
    int readers = atomic_load(&engine->busy);
    while (readers >= 0)
        if (atomic_compare_exchange_weak(&engine->busy, &readers, readers + 1)) return SOSMC_OK;
    atomic_store(&engine->refused, 1);
    return SOSMC_EINVAL;
}

sosmc_status sosmc_i_leave_reading(const sosmc *s, sosmc_status status)
{
    atomic_fetch_sub(&((sosmc *)s)->busy, 1);
    return status;
}

sosmc_status sosmc_i_here(sosmc *s)
{
    if (!sosmc_i_crew_lost(s->threads)) return SOSMC_OK;
    return sosmc_i_fail(
        s, SOSMC_EINVAL,
        "the engine was created before this process was forked, and its %d threads stayed with the other process; it "
        "can be saved and freed here, and a new engine can load what was saved",
        sosmc_i_crew_threads(s->threads));
}
