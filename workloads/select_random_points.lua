-- One select of several values of an indexed column, outside of any transaction.

local oltp = require("oltp_common")

oltp.declare({ random_points = { "Values in the IN (...) list", 10 } })
oltp.workload({ "point_list" }, { is_transaction = false })
