package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// strategy is the part of the API server's type for custom resources that judges them; the type has no public name.
type strategy interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

// Server serves the one version of a definition.
type Server struct {
	schema   *structuralschema.Structural
	strategy strategy
	rules    *cel.Validator
}

func newServer(definition *apiextensionsv1.CustomResourceDefinition) (*Server, error) {
	version := definition.Spec.Versions[0]
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		version.Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	statusSchema := internal.OpenAPIV3Schema.Properties["status"]
	statusValidator, _, err := validation.NewSchemaValidator(&statusSchema)
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{
		Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind,
	}
	return &Server{
		schema: structural,
		strategy: customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), true, kind, validator,
			statusValidator, structural, &apiextensions.CustomResourceSubresourceStatus{}, nil, nil),
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

func (s *Server) answer(question Question) Answer {
	answer := Answer{Name: question.Name, Errors: []string{}}
	object, unknown, err := s.decode(question.Object)
	if err != nil {
		answer.Errors = append(answer.Errors, err.Error())
		return answer
	}
	for _, path := range unknown {
		answer.Errors = append(answer.Errors, fmt.Sprintf("strict decoding error: unknown field %q", path))
	}
	var old map[string]interface{}
	ctx := context.Background()
	var errs field.ErrorList
	if question.Old == nil {
		s.strategy.PrepareForCreate(ctx, object)
		errs = s.strategy.Validate(ctx, object)
	} else {
		former, _, err := s.decode(question.Old)
		if err != nil {
			answer.Errors = append(answer.Errors, "old: "+err.Error())
			return answer
		}
		old = former.Object
		s.strategy.PrepareForUpdate(ctx, object, former)
		errs = s.strategy.ValidateUpdate(ctx, object, former)
	}
	for _, err := range errs {
		answer.Errors = append(answer.Errors, err.Error())
	}
	answer.Valid = len(answer.Errors) == 0
	if question.Cost {
		answer.Cost = s.cost(ctx, object.Object, old)
	}
	return answer
}

// decode reads an object as the handler of custom resources does (schemaCoercingDecoder, which is not public): prune and
// report what the schema does not know, drop nulls where none may be.
func (s *Server) decode(text json.RawMessage) (*unstructured.Unstructured, []string, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &object.Object); err != nil {
		return nil, nil, err
	}
	if object.Object == nil {
		return nil, nil, fmt.Errorf("the object is null")
	}
	meta, found, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(object.Object,
		schemaobjectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	unknown = append(unknown, structuralpruning.PruneWithOptions(object.Object, s.schema, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object.Object, s.schema)
	if found {
		if err := schemaobjectmeta.SetObjectMeta(object.Object, meta); err != nil {
			return nil, nil, err
		}
	}
	if object.GetNamespace() == "" {
		object.SetNamespace("default") // the request's path says it
	}
	return object, unknown, nil
}

// cost evaluates the rules once more, because the strategy does not say what they cost.
func (s *Server) cost(ctx context.Context, object, old map[string]interface{}) int64 {
	var former interface{}
	if old != nil {
		former = old
	}
	_, left := s.rules.Validate(ctx, nil, s.schema, object, former, celconfig.RuntimeCELCostBudget)
	return celconfig.RuntimeCELCostBudget - left
}
