-- Updates of a column without index by primary key, outside of any transaction: one with the
-- default options.

local oltp = require("oltp_common")

oltp.workload({ "non_index_updates" }, { is_transaction = false })
