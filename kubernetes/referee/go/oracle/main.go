// What the real server decides about custom resources, without a server: each line of the input is a schema and a sequence
// of writes, each line of the output what every write led to. The merging is structured-merge-diff's, the keeping of
// managedFields apimachinery's, and the schema is read as apiextensions-apiserver reads it. A line with rules instead of
// writes is answered with what is wrong with each, or its estimated cost; a line with quantities with how they are written;
// a line with patterns with what is wrong with each, or where it matches in each of the texts.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var kind = schema.GroupVersionKind{Group: "oracle.dev", Version: "v1", Kind: "Thing"}

type story struct {
	Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
	Writes []write                          `json:"writes"`
	Rules  []string                         `json:"rules"`

	Quantities []string `json:"quantities"`

	Patterns []string `json:"patterns"`
	Texts    []string `json:"texts"`
}

type write struct {
	Apply       bool           `json:"apply"`
	Force       bool           `json:"force"`
	Manager     string         `json:"manager"`
	Subresource string         `json:"subresource"`
	Reset       []string       `json:"reset"`
	Object      map[string]any `json:"object"`
}

type outcome struct {
	Object map[string]any `json:"object,omitempty"`
	Text   string         `json:"text,omitempty"`
	Error  string         `json:"error,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		// Numbers are read as the real server reads them: whole ones as integers.
		var raw unstructuredStory
		must(raw.read(lines.Bytes()))
		if raw.Quantities != nil {
			must(out.Encode(rewrite(raw.Quantities)))
			continue
		}
		if raw.Patterns != nil {
			must(out.Encode(match(raw.Patterns, raw.Texts)))
			continue
		}
		if raw.Rules != nil {
			must(out.Encode(judge(raw.Schema, raw.Rules)))
			continue
		}
		must(out.Encode(play(raw.story)))
	}
	must(lines.Err())
}

// unstructuredStory is a story whose objects came through the decoder of unstructured objects.
type unstructuredStory struct{ story }

func (s *unstructuredStory) read(line []byte) error {
	if err := json.Unmarshal(line, &s.story); err != nil {
		return err
	}
	var objects struct {
		Writes []struct {
			Object json.RawMessage `json:"object"`
		} `json:"writes"`
	}
	if err := json.Unmarshal(line, &objects); err != nil {
		return err
	}
	for at := range objects.Writes {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(objects.Writes[at].Object); err != nil {
			return err
		}
		s.Writes[at].Object = object.Object
	}
	return nil
}

// play carries the writes out one after the other; a refused one leaves the object as it was.
func play(s story) []outcome {
	converter := typeConverter(s.Schema)
	var live *unstructured.Unstructured
	outcomes := []outcome{}
	for _, w := range s.Writes {
		manager, err := managedfields.NewDefaultCRDFieldManager(converter, plain{}, plain{}, plain{}, kind,
			kind.GroupVersion(), w.Subresource, reset(w.Reset))
		must(err)
		before := live
		if before == nil {
			before = empty()
		}
		object := &unstructured.Unstructured{Object: w.Object}
		var after runtime.Object
		if w.Apply {
			after, err = manager.Apply(before.DeepCopy(), object, w.Manager, w.Force)
		} else {
			after = manager.UpdateNoErrors(before.DeepCopy(), object, w.Manager)
		}
		if err != nil {
			outcomes = append(outcomes, outcome{Error: err.Error()})
			continue
		}
		live = after.(*unstructured.Unstructured).DeepCopy()
		// The real server gives every object an identity, and so tells an update from a create.
		live.SetUID("1")
		outcomes = append(outcomes, outcome{Object: live.DeepCopy().Object})
	}
	return outcomes
}

func typeConverter(props *apiextensionsv1.JSONSchemaProps) managedfields.TypeConverter {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "things", Singular: "thing", Kind: kind.Kind, ListKind: kind.Kind + "List",
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Names: names, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
	document, err := builder.BuildOpenAPIV3(definition, kind.Version, builder.Options{})
	must(err)
	converter, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	must(err)
	return converter
}

func reset(names []string) map[fieldpath.APIVersion]fieldpath.Filter {
	fields := fieldpath.NewSet()
	for _, name := range names {
		fields.Insert(fieldpath.MakePathOrDie(name))
	}
	version := fieldpath.APIVersion(kind.GroupVersion().String())
	return fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{version: fields})
}

func empty() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// plain is what the real server has for kinds of one version: nothing to convert, and the defaults come later.
type plain struct{}

func (plain) Convert(in, out, context any) error { panic("nobody converts between types here") }

func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (plain) Default(runtime.Object) {}

func (plain) New(schema.GroupVersionKind) (runtime.Object, error) { return empty(), nil }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
