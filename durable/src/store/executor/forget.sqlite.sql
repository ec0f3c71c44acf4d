-- Forgets executors that ended long ago. ?1 before
DELETE FROM executors WHERE released AND ended_at < ?1
