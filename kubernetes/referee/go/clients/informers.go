package main

import (
	"context"
	"sort"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// notes keeps what handlers saw; their goroutines are not the story's.
type notes struct {
	lock  sync.Mutex
	lines []string
}

func (n *notes) add(line string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) count() int {
	n.lock.Lock()
	defer n.lock.Unlock()
	return len(n.lines)
}

// tell prints the next lines once there are that many; initial ones come in any order.
func (n *notes) tell(ctx context.Context, total int, sorted bool) {
	until(ctx, "events", func() bool { return n.count() >= total })
	n.lock.Lock()
	defer n.lock.Unlock()
	if sorted {
		sort.Strings(n.lines)
	}
	say("  %s", strings.Join(n.lines, "; "))
	n.lines = nil
}

func (n *notes) handler() cache.ResourceEventHandlerFuncs {
	show := func(object any) string {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		switch object := object.(type) {
		case *core.ConfigMap:
			return object.Name + "=" + object.Data["k"]
		case *unstructured.Unstructured:
			value, _, _ := unstructured.NestedString(object.Object, "data", "k")
			return object.GetName() + "=" + value
		case meta.Object:
			return object.GetName() + " labelled " + object.GetLabels()["informed"]
		}
		return "?"
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.add("added " + show(object)) },
		UpdateFunc: func(_, object any) { n.add("changed " + show(object)) },
		DeleteFunc: func(object any) { n.add("gone " + show(object)) },
	}
}

func informersStory(ctx context.Context, config *rest.Config, namespace string) {
	say("streaming lists: %v", features.FeatureGates().Enabled(features.WatchListClient))
	client, err := kubernetes.NewForConfig(config)
	must(err)
	maps := client.CoreV1().ConfigMaps(namespace)
	labels := map[string]string{"informed": "yes"}
	selected := func(options *meta.ListOptions) { options.LabelSelector = "informed=yes" }
	create := func(name string) {
		_, err := maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"k": "1"}}, meta.CreateOptions{})
		must(err)
	}
	create("a")
	create("b")

	plain := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(selected))
	lister := plain.Core().V1().ConfigMaps().Lister()
	seen := &notes{}
	_, err = plain.Core().V1().ConfigMaps().Informer().AddEventHandler(seen.handler())
	must(err)

	untyped, err := dynamic.NewForConfig(config)
	must(err)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	dynamics := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, namespace, selected)
	seenDynamic := &notes{}
	_, err = dynamics.ForResource(resource).Informer().AddEventHandler(seenDynamic.handler())
	must(err)

	bare, err := metadata.NewForConfig(config)
	must(err)
	metas := metadatainformer.NewFilteredSharedInformerFactory(bare, 0, namespace, selected)
	seenMeta := &notes{}
	_, err = metas.ForResource(resource).Informer().AddEventHandler(seenMeta.handler())
	must(err)

	plain.Start(ctx.Done())
	dynamics.Start(ctx.Done())
	metas.Start(ctx.Done())
	plain.WaitForCacheSync(ctx.Done())
	dynamics.WaitForCacheSync(ctx.Done())
	metas.WaitForCacheSync(ctx.Done())

	all := []*notes{seen, seenDynamic, seenMeta}
	tell := func(what string, total int, sorted bool) {
		say("%s:", what)
		for _, notes := range all {
			notes.tell(ctx, total, sorted)
		}
	}
	tell("at the start", 2, true)
	create("c")
	tell("a new one", 1, false)
	current, err := maps.Get(ctx, "a", meta.GetOptions{})
	must(err)
	current.Data["k"] = "2"
	_, err = maps.Update(ctx, current, meta.UpdateOptions{})
	must(err)
	tell("a change", 1, false)
	current, err = maps.Get(ctx, "b", meta.GetOptions{})
	must(err)
	current.Labels = nil
	_, err = maps.Update(ctx, current, meta.UpdateOptions{})
	must(err)
	tell("one that is selected no more", 1, false)
	must(maps.Delete(ctx, "c", meta.DeleteOptions{}))
	tell("one that is deleted", 1, false)
	cached, err := lister.ConfigMaps(namespace).Get("a")
	must(err)
	say("the cache has a=%s", cached.Data["k"])
}
