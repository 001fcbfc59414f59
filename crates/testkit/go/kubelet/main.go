// What a real kubelet says of a configuration: each line of the input is a JSON string that holds a file, each line of the
// output a JSON string that is empty or says what is wrong. The file is decoded by the kubelet's own types, where unknown
// and repeated fields are errors, and checked by the kubelet's own rules.
//
// Feature gates that this version does not know are left out first, because clusters have gates of other versions. The
// control groups of the host that judges are no matter of the configuration.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"sigs.k8s.io/yaml"
)

func main() {
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	must(err)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var text string
		must(json.Unmarshal(lines.Bytes(), &text))
		must(out.Encode(judge(codecs, []byte(text))))
	}
	must(lines.Err())
}

func judge(codecs *serializer.CodecFactory, text []byte) string {
	text, err := withoutUnknownGates(text)
	if err != nil {
		return err.Error()
	}
	object, err := runtime.Decode(codecs.UniversalDecoder(), text)
	if err != nil {
		return err.Error()
	}
	configuration, ok := object.(*config.KubeletConfiguration)
	if !ok {
		return fmt.Sprintf("this is no KubeletConfiguration but %T", object)
	}
	configuration.FailCgroupV1 = false
	if err := validation.ValidateKubeletConfiguration(configuration, utilfeature.DefaultFeatureGate); err != nil {
		return err.Error()
	}
	return ""
}

// The text as it is, unless it names gates that are unknown.
func withoutUnknownGates(text []byte) ([]byte, error) {
	var content map[string]any
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		return nil, err
	}
	gates, _ := content["featureGates"].(map[string]any)
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	changed := false
	for name := range gates {
		if _, ok := known[featuregate.Feature(name)]; !ok {
			delete(gates, name)
			changed = true
		}
	}
	if !changed {
		return text, nil
	}
	return yaml.Marshal(content)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
