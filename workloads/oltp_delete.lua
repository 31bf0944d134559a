-- One delete by primary key, outside of any transaction. Rows that are gone stay gone, so that a
-- long run deletes nothing more and more often.

local oltp = require("oltp_common")

oltp.workload({ "deletes" }, { is_transaction = false })
