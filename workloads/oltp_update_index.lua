-- Updates of an indexed column by primary key, outside of any transaction: one with the default
-- options.

local oltp = require("oltp_common")

oltp.workload({ "index_updates" }, { is_transaction = false })
