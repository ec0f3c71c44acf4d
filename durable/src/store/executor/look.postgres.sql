-- Whether there is work, by workflows_pending and workflows_waiting. $1 names, $2 versions, $3 queues or NULL
SELECT due, due_in, rated FROM durable.look($1, $2, $3)
