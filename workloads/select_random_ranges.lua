-- One count over several ranges of an indexed column, outside of any transaction.

local oltp = require("oltp_common")

oltp.declare({
  number_of_ranges = { "Ranges in the condition", 10 },
  delta = { "Difference between the ends of a range", 5 },
})
oltp.workload({ "range_list" }, { is_transaction = false })
