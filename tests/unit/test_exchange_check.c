/*
 * The rules of the exchange's own state: they hold while an operation runs, and each broken one is
 * reported with a reason.
 */
#include "unit.h"
#include "unit/exchange_alone.h"

#include "support/exchange_check.h"
#include "collective/internal.h"
#include "unit/rules.h"

TEST(exchange_rules)
{
    be_alone(1000, &no_mesh);
    start_alone();
    struct pccl_exchange *exchange = exchange_of(&alone.world, 0);
    struct pccl_transfer *transfer = alone.job.transfer;
    assert_null(pccl_exchange_check(exchange));
    BREAKS(pccl_exchange_check, exchange, exchange->scratch.reserved_bytes, 1,
           "scratch is reserved for exactly the open stripes");
    BREAKS(pccl_exchange_check, exchange, exchange->short_path_bytes, 1,
           "what of it belongs to transfers on short paths is right");
    BREAKS(pccl_exchange_check, exchange, exchange->moving_bytes, 1,
           "what of that belongs to transfers that move is right");
    BREAKS(pccl_exchange_check, exchange, exchange->early_bytes, 1, "the amount that all lanes hold ahead is right");
    BREAKS(pccl_exchange_check, exchange, transfer->complete, 1, "the number of open stripes is right");
    BREAKS(pccl_exchange_check, exchange, transfer->unheard, 0,
           "the number of receivers that have not said `ready` is right");
    BREAKS(pccl_exchange_check, exchange, transfer->stage, PCCL_TRANSFER_DONE,
           "a transfer that is done has its results");
    end_alone();
}
