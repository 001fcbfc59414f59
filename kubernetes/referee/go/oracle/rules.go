package main

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type verdict struct {
	Error string `json:"error,omitempty"`
	Cost  uint64 `json:"cost"`
}

// judge compiles each rule by itself at the root of the schema: what is wrong with it, or what it costs at most.
func judge(props *apiextensionsv1.JSONSchemaProps, rules []string) []verdict {
	var internal apiextensions.JSONSchemaProps
	must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil))
	structural, err := structuralschema.NewStructural(&internal)
	must(err)
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	verdicts := []verdict{}
	for _, rule := range rules {
		structural.XValidations = apiextensionsv1.ValidationRules{{Rule: rule}}
		results, err := cel.Compile(structural, model.SchemaDeclType(structural, true), celconfig.PerCallLimit,
			environments, cel.NewExpressionsEnvLoader())
		must(err)
		if results[0].Error != nil {
			verdicts = append(verdicts, verdict{Error: results[0].Error.Detail})
			continue
		}
		verdicts = append(verdicts, verdict{Cost: results[0].MaxCost})
	}
	return verdicts
}
