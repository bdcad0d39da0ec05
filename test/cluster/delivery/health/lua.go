package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"
)

func documents(text []byte) [][]byte {
	return bytes.Split(text, []byte("\n---\n"))
}

// As in Argo CD's util/lua: these libraries and no others (no string, no io), one second, the object as `obj`.
func runLua(script string, object *unstructured.Unstructured) (lua.LValue, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), NRet: 0, Protect: true}, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	// Of os only time and date.
	l.PreloadModule(lua.OsLibName, func(l *lua.LState) int {
		l.Push(l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
			"date": func(l *lua.LState) int {
				l.Push(lua.LString(time.Now().UTC().Format("2006-01-02T15:04:05Z")))
				return 1
			},
			"time": func(l *lua.LState) int {
				l.Push(lua.LNumber(time.Now().Unix()))
				return 1
			},
		}))
		return 1
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", toLua(l, object.Object))
	if err := l.DoString(script); err != nil {
		return nil, err
	}
	return l.Get(-1), nil
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		table := l.CreateTable(len(v), 0)
		for _, item := range v {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetH(lua.LString(key), toLua(l, item))
		}
		return table
	}
	return lua.LNil
}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func argoHealth(script string, object *unstructured.Unstructured) (health, error) {
	var result health
	if script == "" {
		return result, fmt.Errorf("no health script for %s", object.GetKind())
	}
	value, err := runLua(script, object)
	if err != nil {
		return result, err
	}
	text, err := luajson.Encode(value)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, err
	}
	switch result.Status {
	case "Healthy", "Progressing", "Suspended", "Degraded", "Missing":
		return result, nil
	}
	return result, fmt.Errorf("%s: Argo CD knows no health %q", object.GetKind(), result.Status)
}

// The actions that are offered, each with what it makes of the object.
func argoActions(text string, object *unstructured.Unstructured) (map[string]map[string]any, error) {
	result := map[string]map[string]any{}
	if text == "" {
		return result, nil
	}
	var actions struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string `json:"name"`
			Action string `json:"action.lua"`
		} `json:"definitions"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &actions); err != nil {
		return nil, err
	}
	offered, err := runLua(actions.Discovery, object)
	if err != nil {
		return nil, err
	}
	table, ok := offered.(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("discovery of actions gives no table but %s", offered.Type())
	}
	for _, definition := range actions.Definitions {
		if table.RawGetString(definition.Name) == lua.LNil {
			continue
		}
		made, err := runLua(definition.Action, object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", definition.Name, err)
		}
		text, err := luajson.Encode(made)
		if err != nil {
			return nil, err
		}
		var changed map[string]any
		if err := json.Unmarshal(text, &changed); err != nil {
			return nil, err
		}
		result[definition.Name] = cleaned(changed, object.Object).(map[string]any)
	}
	return result, nil
}

// Lua has one empty table for {} and []. As Argo CD does: where the object had {}, it stays {}.
func cleaned(made, before any) any {
	switch m := made.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok {
			for key, item := range m {
				m[key] = cleaned(item, b[key])
			}
		}
	case []any:
		switch b := before.(type) {
		case map[string]any:
			if len(m) == 0 {
				return map[string]any{}
			}
		case []any:
			for i := range m {
				if i < len(b) {
					m[i] = cleaned(m[i], b[i])
				}
			}
		}
	}
	return made
}
