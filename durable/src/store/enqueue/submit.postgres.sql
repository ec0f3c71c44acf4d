-- Records workflows, all or none, by `durable.submit`: tells of those whose id or dedup key was taken.
-- $1-$15 one array per column, $16-$19 links: id and write id of the row, prerequisite, whether any end will do
SELECT n, found, is_new FROM durable.submit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
