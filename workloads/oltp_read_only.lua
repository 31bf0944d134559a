-- Point and range selects in one transaction: 16 statements with the default options.

local oltp = require("oltp_common")

oltp.workload({
  "point_selects",
  "simple_ranges",
  "sum_ranges",
  "order_ranges",
  "distinct_ranges",
})
