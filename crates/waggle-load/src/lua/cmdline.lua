-- The prelude: sysbench.cmdline. The command line as a script sees it, options it declares,
-- commands it brings.

local _, _, prelude = ...

local kinds = { [0] = "NULL", "BOOL", "INT", "SIZE", "DOUBLE", "STRING", "LIST", "FILE", "MAX" }

local cmdline = {
  argv = {},
  PARALLEL_COMMAND = true,
}
for number, name in pairs(kinds) do
  cmdline["ARG_" .. name] = number
end
sysbench.cmdline = cmdline

local kind_of_default = {
  boolean = cmdline.ARG_BOOL,
  number = cmdline.ARG_DOUBLE,
  table = cmdline.ARG_LIST,
}

-- The declared options as a list of { name, description, default, kind, validate }.
function prelude.declared_options()
  local declared = {}
  for name, option in pairs(cmdline.options or {}) do
    if type(option) ~= "table" or option[1] == nil then
      error("option '" .. tostring(name) .. "' needs a table with a description", 0)
    end
    local kind = tonumber(option[3]) or kind_of_default[type(option[2])] or cmdline.ARG_STRING
    if kinds[kind] == nil or kind == cmdline.ARG_MAX then
      error("option '" .. name .. "' has an unknown type", 0)
    end
    local default = option[2]
    if kind == cmdline.ARG_BOOL and default == nil then
      default = false
    end
    declared[#declared + 1] = {
      name = tostring(name), description = tostring(option[1]), default = default, kind = kind,
    }
  end
  table.sort(declared, function(left, right) return left.name < right.name end)
  return declared
end

-- Asks the validating functions of the script; raises at the first that refuses.
function prelude.validate_options()
  for name, option in pairs(cmdline.options or {}) do
    local value = sysbench.opt[name:gsub("-", "_")]
    if type(option[4]) == "function" and not option[4](name, value) then
      error("option '" .. name .. "': the script refuses the value '" .. tostring(value) .. "'", 0)
    end
  end
end

-- Options are read by the engine when the script has been loaded; a script need not ask for it.
function cmdline.read_cmdline_options()
  return true
end

function cmdline.command_defined(name)
  local command = (cmdline.commands or {})[name]
  return command ~= nil
end

function cmdline.command_parallel(name)
  local command = (cmdline.commands or {})[name]
  return command ~= nil and command[2] == cmdline.PARALLEL_COMMAND
end

function cmdline.call_command(name)
  local command = (cmdline.commands or {})[name]
  if command == nil then
    return false
  end
  return command[1]()
end

local function shown(default)
  if type(default) == "boolean" then
    return default and "on" or "off"
  elseif type(default) == "table" then
    return table.concat(default, ",")
  elseif type(default) == "number" then
    return string.format("%.15g", default)
  end
  return tostring(default)
end

local forms = {
  BOOL = "[=on|off]", INT = "=N", DOUBLE = "=N", SIZE = "=SIZE", LIST = "=[LIST,...]",
  FILE = "=FILENAME",
}

function cmdline.print_test_options()
  local declared = prelude.declared_options()
  if #declared == 0 then
    return
  end
  print(prelude.script_title .. " options:")
  for _, option in ipairs(declared) do
    local form = option.name .. (forms[kinds[option.kind]] or "=STRING")
    local default = option.default
    local suffix = (default ~= nil and shown(default) ~= "") and " [" .. shown(default) .. "]" or ""
    print(string.format("  --%-27s %s%s", form, option.description, suffix))
  end
  print("")
end
