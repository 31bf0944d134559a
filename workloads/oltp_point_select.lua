-- One row by its primary key, outside of any transaction: the shortest statement there is.

local oltp = require("oltp_common")

oltp.workload({ "point_selects" }, { single = true })
