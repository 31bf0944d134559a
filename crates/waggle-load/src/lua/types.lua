-- The prelude, first part: the C types whose names scripts know, and a stand-in for ffi.C.
--
-- Scripts declare C functions of sysbench with ffi.cdef and call them through ffi.C. There are no
-- such symbols in this program: the stand-in finds them in a table, and all others (those of the
-- C library, constants of enums) where they are. Its __index is inlined into traces.

local ffi = require("ffi")

ffi.cdef([[
typedef enum { SQL_ERROR_NONE, SQL_ERROR_IGNORABLE, SQL_ERROR_FATAL } sql_error_t;

typedef enum {
  SQL_TYPE_NONE, SQL_TYPE_TINYINT, SQL_TYPE_SMALLINT, SQL_TYPE_INT, SQL_TYPE_BIGINT,
  SQL_TYPE_FLOAT, SQL_TYPE_DOUBLE, SQL_TYPE_TIME, SQL_TYPE_DATE, SQL_TYPE_DATETIME,
  SQL_TYPE_TIMESTAMP, SQL_TYPE_CHAR, SQL_TYPE_VARCHAR
} sql_bind_type_t;

typedef enum {
  SB_ARG_TYPE_NULL, SB_ARG_TYPE_BOOL, SB_ARG_TYPE_INT, SB_ARG_TYPE_SIZE, SB_ARG_TYPE_DOUBLE,
  SB_ARG_TYPE_STRING, SB_ARG_TYPE_LIST, SB_ARG_TYPE_FILE, SB_ARG_TYPE_MAX
} sb_arg_type_t;

typedef enum {
  SB_CNT_OTHER, SB_CNT_READ, SB_CNT_WRITE, SB_CNT_TRX, SB_CNT_EVENT = 3, SB_CNT_ERROR,
  SB_CNT_RECONNECT, SB_CNT_BYTES_READ, SB_CNT_BYTES_WRITTEN, SB_CNT_MAX
} sb_counter_type;

typedef struct sql_driver sql_driver;
typedef struct sql_connection sql_connection;
typedef struct sql_statement sql_statement;
typedef struct sb_histogram_t sb_histogram_t;
typedef struct { uint32_t len; const char *ptr; } sql_value;
typedef struct { void *ptr; sql_value *values; } sql_row;
typedef struct {
  sql_bind_type_t type; void *buffer; unsigned long *data_len; unsigned long max_len;
  char *is_null;
} sql_bind;
typedef struct {
  const char *name; const char *desc; sb_arg_type_t type; char *value; void *validate;
} sb_arg_t;

// What a script sees of a result goes through functions, so that a null pointer is safe.
typedef struct sql_result {
  double fetched_; double rows_;
  uint32_t fields_; uint32_t connection_; uint32_t serial_; uint32_t set_; uint32_t statement_;
  uint32_t counter_;
} sql_result;
]])

local real = ffi.C
local own = {}

ffi.C = setmetatable({}, {
  __index = function(_, name)
    local found = own[name]
    if found ~= nil then
      return found
    end
    return real[name]
  end,
  __newindex = function(_, name, value)
    real[name] = value
  end,
})

_G.ffi = ffi

return own, real
