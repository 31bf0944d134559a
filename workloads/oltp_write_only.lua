-- Updates, a delete and an insert in one transaction: 4 statements with the default options.

local oltp = require("oltp_common")

oltp.workload({ "index_updates", "non_index_updates", "delete_inserts" })
