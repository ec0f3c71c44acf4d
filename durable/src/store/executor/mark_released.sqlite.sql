-- Records that an ended executor owns nothing any more, by workflows_running. ?1 executor
UPDATE executors SET released = 1 WHERE executor_id = ?1 AND status <> 'alive'
   AND NOT EXISTS (SELECT 1 FROM workflows WHERE executor_id = ?1 AND status = 'running')
