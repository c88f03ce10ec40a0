// SPDX-License-Identifier: Apache-2.0
//
// Tokens on their way from the last stage of a pipeline to the others, each of which needs them for
// the sequences' next rows.
#include <inttypes.h>

#include "base/clock.h"
#include "launcher/generate.h"
#include "topo/watchdog.h"

// A neighbour that hangs is named by the kernels that wait for it, whose deadline comes first.
enum { TAG = 7004, GRACE = 2 };

static bool is_last(const struct kern_stage *stage)
{
    return stage->index + 1 == stage->count;
}

static int length_of(const struct kern_serving_call *call)
{
    return (int)(call->count * (call->width + 1));
}

static void send(struct kern_run *run, struct kern_serving_call *call)
{
    for (int away = 1; away < run->stage.count; away++, call->n_sends++)
        MPI_Isend(call->tokens, length_of(call), MPI_INT64_T,
                  kern_stage_neighbour(&run->stage, -away), TAG, run->world.comm,
                  &call->sends[away - 1]);
}

void kern_generate_pass_settle(struct kern_run *run, struct kern_serving_call *call)
{
    if (call->n_sends > 0)
        KERN_WITH_OTHERS(&run->world, "handing back tokens",
                         MPI_Waitall(call->n_sends, call->sends, MPI_STATUSES_IGNORE));
}

// Whether the message has come; false with an error if it will not.
static bool await(struct kern_run *run, MPI_Request *request, int from)
{
    uint64_t deadline =
        kern_deadline_in(run->options.timeout > 0 ? run->options.timeout + GRACE : 0);
    const char *host = run->world.members[from].host;
    struct kern_patience patience = {0};
    for (;;) {
        int came = 0;
        enum kern_edge_phase phase;
        MPI_Test(request, &came, MPI_STATUS_IGNORE);
        if (came)
            return true;
        if (!kern_edges_sound(run->edges, &phase, &run->diag)) {
            kern_board_awaits(&run->world.board, kern_edges_awaited(run->edges, phase));
            kern_wait_overdue();
            return false;
        }
        if (kern_world_alarm_raised(&run->world))
            return kern_fail(&run->diag, KERN_EXIT_PEER, NULL,
                             "the wait for the tokens of stage %d (rank %d, %s) was ended",
                             run->stage.count - 1, from, host);
        if (kern_deadline_passed(deadline)) {
            kern_wait_overdue();
            return kern_fail(&run->diag, KERN_EXIT_PEER, NULL,
                             "stage %d (rank %d, %s) waited %g s for the tokens of stage %d (rank "
                             "%d, %s); --timeout sets the limit",
                             run->stage.index, run->world.rank,
                             run->world.members[run->world.rank].host, run->options.timeout,
                             run->stage.count - 1, from, host);
        }
        kern_relax(&patience);
    }
}

static bool receive(struct kern_run *run, struct kern_serving_call *call)
{
    int from = kern_stage_neighbour(&run->stage, run->stage.count - 1 - run->stage.index);
    MPI_Request request;
    MPI_Irecv(call->tokens, length_of(call), MPI_INT64_T, from, TAG, run->world.comm, &request);
    kern_board_awaits(&run->world.board, "tokens from the last stage");
    kern_poll_begin(&run->world, "the tokens of the last stage");
    bool good = await(run, &request, from);
    kern_wait_end(&run->world);
    if (good)
        kern_board_awaits(&run->world.board, "");
    else
        MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return good;
}

bool kern_generate_pass(struct kern_run *run, struct kern_serving_call *call)
{
    if (run->n_stages == 1 || !call->hands_back)
        return true;
    if (!is_last(&run->stage))
        return receive(run, call);
    send(run, call);
    return true;
}
