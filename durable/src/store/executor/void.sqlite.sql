-- Voids the lease rows of an executor, in the transaction that ended it. ?1 executor
UPDATE writers SET epoch = epoch + 1 WHERE executor_id = ?1
