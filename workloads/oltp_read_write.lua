-- Selects, updates, a delete and an insert in one transaction: 20 statements with the default
-- options. The row count stays: what is deleted is inserted again.

local oltp = require("oltp_common")

oltp.workload({
  "point_selects",
  "simple_ranges",
  "sum_ranges",
  "order_ranges",
  "distinct_ranges",
  "index_updates",
  "non_index_updates",
  "delete_inserts",
})
