-- Health of every kind of Muster. What waits in a queue is healthy: a sync must not wait for it. The table is in docs/gitops.md.
if obj.status == nil or obj.status.conditions == nil then
  return {status = "Progressing", message = "Muster has not looked at it yet"}
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "Muster has not looked at the last change yet"}
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
local function is(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end
local function say(status, type)
  local condition = conditions[type]
  local message = condition.reason
  if condition.message ~= nil and condition.message ~= "" then
    message = message .. ": " .. condition.message
  end
  return {status = status, message = message}
end

if is("InternalError") then return say("Degraded", "InternalError") end
if is("Stalled") then return say("Degraded", "Stalled") end
if is("Reconciling") then return say("Progressing", "Reconciling") end
if obj.kind == "TrainingJob" then
  if is("Complete") then return say("Healthy", "Complete") end
  -- Never Suspended: the next wave of a sync would wait for ever, and a job that was suspended in git is as git wants it.
  local message = obj.status.phase
  if obj.spec.suspend == true and message ~= "Suspended" then message = message .. " (spec.suspend is true)" end
  if obj.status.queue ~= nil and obj.status.queue.reason ~= nil then
    message = message .. ": " .. obj.status.queue.reason
  end
  return {status = "Healthy", message = message}
end
if obj.kind == "InferenceService" and not is("Ready") then return say("Progressing", "Ready") end
return {status = "Healthy", message = ""}
