-- One insert of a whole row, outside of any transaction.

local oltp = require("oltp_common")

oltp.workload({ "inserts" }, { is_transaction = false })
