package main

import (
	"context"
	"fmt"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// Report is what the API server says about the definition when it is created.
type Report struct {
	Errors []string `json:"errors"`
	// Rules holds the estimated cost of each rule, most expensive first: its worst case times the number of nodes.
	Rules []RuleCost `json:"rules"`
	Total uint64     `json:"total"`
	// The limits that apply: to a rule, to all rules, and to what evaluating them may really cost per object.
	RuleLimit    uint64 `json:"ruleLimit"`
	TotalLimit   uint64 `json:"totalLimit"`
	RuntimeLimit int64  `json:"runtimeLimit"`
	// Oldest is the oldest version of Kubernetes that compiles the rules.
	Oldest string `json:"oldest"`
}

// RuleCost is the estimated cost of one rule.
type RuleCost struct {
	Message string `json:"message"`
	Cost    uint64 `json:"cost"`
}

// oldest is the oldest version of Kubernetes Holdfast runs on.
var oldest = version.MajorMinor(1, 33)

// readDefinition decodes a definition strictly and fills in Kubernetes' defaults.
func readDefinition(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, definition); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	return definition, nil
}

func judgeDefinition(definition *apiextensionsv1.CustomResourceDefinition) (*Report, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		definition, internal, nil); err != nil {
		return nil, err
	}
	// As the registry does before it validates.
	internal.Status.StoredVersions = []string{internal.Spec.Versions[0].Name}
	report := &Report{
		Errors:       []string{},
		RuleLimit:    crdvalidation.StaticEstimatedCostLimit,
		TotalLimit:   crdvalidation.StaticEstimatedCRDCostLimit,
		RuntimeLimit: celconfig.RuntimeCELCostBudget,
		Oldest:       oldest.String(),
	}
	for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal) {
		report.Errors = append(report.Errors, err.Error())
	}
	// A single version keeps its schema beside the list of versions.
	schema := internal.Spec.Validation.OpenAPIV3Schema
	if err := report.observe(schema, crdvalidation.RootCELContext(schema)); err != nil {
		return nil, err
	}
	sort.SliceStable(report.Rules, func(i, j int) bool { return report.Rules[i].Cost > report.Rules[j].Cost })
	return report, nil
}

// observe walks the schema as the validation does, which keeps the costs it finds to itself.
func (r *Report) observe(schema *apiextensions.JSONSchemaProps, node *crdvalidation.CELSchemaContext) error {
	if len(schema.XValidations) > 0 {
		if err := r.observeRules(schema, node); err != nil {
			return err
		}
	}
	for name, child := range schema.Properties {
		if err := r.observe(&child, node.ChildPropertyContext(&child, name)); err != nil {
			return err
		}
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		if err := r.observe(schema.Items.Schema, node.ChildItemsContext(schema.Items.Schema)); err != nil {
			return err
		}
	}
	if values := schema.AdditionalProperties; values != nil && values.Schema != nil {
		return r.observe(values.Schema, node.ChildAdditionalPropertiesContext(values.Schema))
	}
	return nil
}

func (r *Report) observeRules(schema *apiextensions.JSONSchemaProps, node *crdvalidation.CELSchemaContext) error {
	types, err := node.TypeInfo()
	if err != nil || types == nil {
		return fmt.Errorf("no types for %q: %v", schema.XValidations[0].Message, err)
	}
	// An API server lets new rules use what the version before its own knew, so that it can be taken back.
	known := environment.MustBaseEnvSet(oldest.SubtractMinor(1), true)
	compiled, err := cel.Compile(types.Schema, types.DeclType, celconfig.PerCallLimit, known, cel.NewExpressionsEnvLoader())
	if err != nil {
		return err
	}
	for i, rule := range compiled {
		if rule.Error != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("in Kubernetes %s: %s", oldest, rule.Error.Detail))
		}
		if rule.MessageExpressionError != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("in Kubernetes %s: %s", oldest, rule.MessageExpressionError.Detail))
		}
		nodes := rule.MaxCardinality
		if node.MaxCardinality != nil {
			nodes = *node.MaxCardinality
		}
		cost := rule.MaxCost * nodes
		// The server counts an expression for the message once, however many nodes there are.
		message := rule.MessageExpressionMaxCost
		r.Rules = append(r.Rules, RuleCost{Message: schema.XValidations[i].Message, Cost: max(cost, message)})
		r.Total += cost + message
	}
	return nil
}
