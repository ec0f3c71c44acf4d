-- Records that an ended executor owns nothing any more. ?1 executor
UPDATE executors SET released = 1 WHERE executor_id = ?1 AND status <> 'alive'
