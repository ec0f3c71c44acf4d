-- Fourth: and its step runs again. ?1 id, ?2 branch, ?3 index
DELETE FROM workflow_steps WHERE workflow_id = ?1 AND branch = ?2 AND step_index = ?3
